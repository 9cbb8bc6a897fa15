"""From one worker to several, and back: the joint between `compute` and `scaling`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from planner.estimate.scaling.collectives import Fabric, Group, fabric_of
from planner.estimate.scaling.overlap import WorkerStep
from planner.estimate.scaling.probe import CollectiveProbe, probes_of
from planner.estimate.scaling.scaling_model import SCORE_QUANTILES, ScalingModel, ScalingPoint, fit_scaling
from planner.estimate.scaling.traffic import Traffic, ddp_traffic, fsdp2_traffic
from planner.estimate.time.chips import chip_of
from planner.estimate.time.measured import MeasuredSetting
from planner.estimate.transfer.compute import Compute
from planner.estimate.transfer.transfer_path import Anchor, SingleWorkerStep
from planner.estimate.values import Hardware
from trials.profile import WorkloadProfile
from trials.trial import Measurement, Parallelism, TrialConfig

Probes = Mapping[str, Sequence[CollectiveProbe]]  # by GPU

_STEPS_PER_OCTAVE = 2.0
_FP32_BYTES = 4  # the optimizer holds fp32 parameters, and FSDP2 gathers and reduces them so


@dataclass(frozen=True, slots=True)
class Together:
    """A step of several workers, and how far it may lie off because of them."""

    step_s: float
    log_below: float  # in units of `scaling_multiplier`
    log_above: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Scaling of one workload; made by `fit_workers`."""

    traffic: Mapping[Parallelism, Traffic]
    models: Mapping[tuple[str, Parallelism], ScalingModel]  # by GPU, where several workers were measured
    measured_counts: Mapping[tuple[str, Parallelism], int]  # the largest; none where links were probed only
    _believed: dict[tuple[Parallelism, Fabric], ScalingModel] = field(
        default_factory=dict, repr=False, compare=False
    )
    _error_scales: dict[tuple[int, Group, Fabric, int, int], tuple[float, float]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def step(self, alone: SingleWorkerStep, config: TrialConfig, hardware: Hardware) -> Together:
        """Of ``config`` on ``hardware``, from what one worker takes."""
        if config.gpu_count == 1 or config.parallelism is Parallelism.SINGLE:
            return Together(config.accumulation * alone.micro_batch_s + alone.optimizer_s, 0.0, 0.0)
        work = WorkerStep(
            micro_batch_s=alone.micro_batch_s,
            accumulation=config.accumulation,
            per_step_s=alone.optimizer_s,
        )
        fabric = fabric_of(hardware)
        model, measured_count = self._model(config, fabric)
        group = Group(rank_count=config.gpu_count, node_count=config.node_count)
        below, above = self._error_scale(model, work, group, measured_count, fabric)
        return Together(model.step_s(work, group, fabric), below, above)

    def _model(self, config: TrialConfig, fabric: Fabric) -> tuple[ScalingModel, int]:
        """The fitted model of the chip, or the priors; and the largest count that was measured."""
        key = (config.gpu, config.parallelism)
        if key in self.models:
            return self.models[key], self.measured_counts.get(key, 1)
        believed = (config.parallelism, fabric)
        if believed not in self._believed:
            self._believed[believed] = fit_scaling(
                [], config.parallelism, self.traffic[config.parallelism], fabric
            )
        return self._believed[believed], 1

    def _error_scale(
        self, model: ScalingModel, work: WorkerStep, group: Group, measured_count: int, fabric: Fabric
    ) -> tuple[float, float]:
        """Remembered by half octaves of the micro batch time, with which it changes slowly."""
        octave = round(_STEPS_PER_OCTAVE * math.log2(work.micro_batch_s))
        key = (id(model), group, fabric, work.accumulation, octave)
        if key not in self._error_scales:
            self._error_scales[key] = model.error_scale(
                work, group, measured_count=measured_count, fabric=fabric
            )
        return self._error_scales[key]


@cache
def scaling_multiplier(confidence: float) -> float:
    """What the two log errors of `Together` are multiplied with for an interval of ``confidence``."""
    return float(np.interp(confidence, list(SCORE_QUANTILES), list(SCORE_QUANTILES.values())))


def probes_by_gpu(measurements: Sequence[Measurement]) -> Probes:
    """The collectives that trials have timed on each chip."""
    found: dict[str, list[CollectiveProbe]] = {}
    for one in measurements:
        if one.links is not None:
            found.setdefault(one.config.gpu, []).extend(probes_of(one.links))
    return found


def reduce_to_one(
    sources: Sequence[MeasuredSetting], profile: WorkloadProfile | None, probes: Probes
) -> tuple[Anchor, ...]:
    """Measured settings as one worker would take them; those of a chip without the unit are left out."""
    traffic = _traffic(profile)
    starts = []
    for one in sources:
        chip = chip_of(one.config, one.hardware)
        if chip is not None:
            starts.append(Anchor(one, chip, _synchronisation_s(one, traffic, probes)))
    return tuple(starts)


def fit_workers(
    sources: Sequence[MeasuredSetting], compute: Compute, profile: WorkloadProfile | None, probes: Probes
) -> Workers:
    """Scaling models of the chips that several workers were measured on, or the links between them."""
    traffic = _traffic(profile)
    groups: dict[tuple[str, Parallelism], list[MeasuredSetting]] = {}
    for one in sources:
        if one.setting.gpu_count > 1 and one.setting.parallelism is not Parallelism.SINGLE:
            groups.setdefault((one.setting.gpu, one.setting.parallelism), []).append(one)
    singles = tuple(one for one in compute.starts if one.source.setting.gpu_count == 1)
    alone = replace(compute, starts=singles, _ways={})  # what it remembers is of all starts
    models = {}
    hardware = {one.setting.gpu: one.hardware for one in sources}
    probed = [(gpu, parallelism) for gpu in probes if gpu in hardware for parallelism in traffic]
    for key in dict.fromkeys([*groups, *probed]):
        gpu, parallelism = key
        points = [point for one in groups.get(key, ()) for point in _points(one, alone)]
        if points or gpu in probes:
            models[key] = fit_scaling(
                points,
                parallelism,
                traffic[parallelism],
                fabric_of(hardware[gpu]),
                probes=probes.get(gpu, ()),
            )
    counts = {key: max(one.setting.gpu_count for one in group) for key, group in groups.items()}
    return Workers(traffic=traffic, models=models, measured_counts=counts)


def _points(source: MeasuredSetting, alone: Compute) -> list[ScalingPoint]:
    """The ends of a setting's line, where one worker of the same chip was measured."""
    line, points = source.line, []
    if not any(one.source.setting.gpu == source.setting.gpu for one in alone.starts):
        return []
    for size in sorted({line.micro_batch_sizes[0], line.micro_batch_sizes[-1]}):
        for accumulation in sorted({line.accumulations[0], line.accumulations[-1]}):
            one = alone.step(source.config_at(size, accumulation), source.hardware)
            if one is None:
                continue
            work = WorkerStep(
                micro_batch_s=one.micro_batch_s, accumulation=accumulation, per_step_s=one.optimizer_s
            )
            group = Group(rank_count=source.setting.gpu_count, node_count=source.setting.node_count)
            step_s = line.step_time_s(size, accumulation)
            points.append(ScalingPoint(work=work, group=group, step_s=step_s))
    return points


def _synchronisation_s(
    source: MeasuredSetting, traffic: Mapping[Parallelism, Traffic], probes: Probes
) -> float:
    """Exposed synchronisation per micro batch of a measured setting, by the link's figures and its probe.

    DDP pays it once per step, so the line already holds it in its fixed part where several accumulation
    counts were measured.
    """
    setting, line = source.setting, source.line
    if setting.gpu_count == 1 or setting.parallelism is Parallelism.SINGLE:
        return 0.0
    if setting.parallelism is Parallelism.DDP and len(line.accumulations) > 1:
        return 0.0
    fabric = fabric_of(source.hardware)
    model = fit_scaling(
        [], setting.parallelism, traffic[setting.parallelism], fabric, probes=probes.get(setting.gpu, ())
    )
    size, accumulation = line.micro_batch_sizes[-1], line.accumulations[-1]
    step_s = line.step_time_s(size, accumulation)
    work = WorkerStep(micro_batch_s=0.0, accumulation=accumulation, per_step_s=line.optimizer_s)
    group = Group(rank_count=setting.gpu_count, node_count=setting.node_count)
    return max(0.0, line.micro_batch_s(size) - model.micro_batch_s(step_s, work, group))


def _traffic(profile: WorkloadProfile | None) -> dict[Parallelism, Traffic]:
    if profile is None:
        unknown = Traffic(gradient_bytes=None)
        return {Parallelism.DDP: unknown, Parallelism.FSDP2: unknown}
    return {
        Parallelism.DDP: ddp_traffic(profile.trainable_parameter_count),
        Parallelism.FSDP2: fsdp2_traffic(
            profile.parameter_count,
            profile.block_count,
            bytes_per_parameter=_FP32_BYTES,
            bytes_per_gradient=_FP32_BYTES,
        ),
    }
