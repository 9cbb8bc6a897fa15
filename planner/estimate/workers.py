"""From one worker to several, and back: the joint between `compute` and `scaling`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from planner.estimate.scaling.collectives import Fabric, fabric_of
from planner.estimate.scaling.probe import CollectiveProbe, probes_of
from planner.estimate.scaling.scaling_model import SCORE_QUANTILES, ScalingModel, ScalingPoint, fit_scaling
from planner.estimate.time.chips import chip_of
from planner.estimate.time.measured import MeasuredSetting
from planner.estimate.transfer.compute import Compute
from planner.estimate.transfer.transfer_path import Anchor, SingleWorkerStep
from planner.estimate.values import Hardware
from planner.modes import PARALLELISMS
from planner.modes.chosen import traffic_of
from planner.modes.precision import REFERENCE
from planner.modes.terms import Group, Traffic, WorkerStep
from trials.api import Measurement, TrialConfig, WorkloadProfile

Probes = Mapping[str, Sequence[CollectiveProbe]]  # by GPU

_STEPS_PER_OCTAVE = 2.0
_PAIR = Group(rank_count=2)


@dataclass(frozen=True, slots=True)
class Together:
    """A step of several workers, and how far it may lie off because of them."""

    step_s: float
    log_below: float  # in units of `scaling_multiplier`
    log_above: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Scaling of one workload; made by `fit_workers`."""

    profile: WorkloadProfile | None
    models: Mapping[tuple[str, str], ScalingModel]  # by GPU and parallelism, where several were measured
    measured_counts: Mapping[tuple[str, str], int]  # the largest; none where links were probed only
    _believed: dict[tuple[str, Fabric], ScalingModel] = field(default_factory=dict, repr=False, compare=False)
    _carrying: dict[tuple[int, Traffic], ScalingModel] = field(
        default_factory=dict, repr=False, compare=False
    )
    _error_scales: dict[tuple[int, Group, Fabric, int, int], tuple[float, float]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def step(self, alone: SingleWorkerStep, config: TrialConfig, hardware: Hardware) -> Together:
        """Of ``config`` on ``hardware``, from what one worker takes."""
        if config.gpu_count == 1:
            return Together(config.accumulation * alone.micro_batch_s + alone.optimizer_s, 0.0, 0.0)
        group = Group(rank_count=config.gpu_count, node_count=config.node_count)
        whole = WorkerStep(
            micro_batch_s=alone.micro_batch_s,
            accumulation=config.accumulation,
            per_step_s=alone.optimizer_s,
        )
        work = PARALLELISMS[config.parallelism].worker_step(whole, group)
        fabric = fabric_of(hardware)
        model, measured_count = self._model(config, group, fabric)
        below, above = self._error_scale(model, work, group, measured_count, fabric)
        return Together(model.step_s(work, group, fabric), below, above)

    def _model(self, config: TrialConfig, group: Group, fabric: Fabric) -> tuple[ScalingModel, int]:
        """The fitted model of the chip, or the priors; and the largest count that was measured."""
        traffic = traffic_of(config.parallelism, config.precision, config.techniques, group, self.profile)
        measured = (config.gpu, config.parallelism)
        model, count = self.models.get(measured), self.measured_counts.get(measured, 1)
        if model is None:
            believed = (config.parallelism, fabric)
            if believed not in self._believed:
                self._believed[believed] = fit_scaling([], config.parallelism, traffic, fabric)
            model, count = self._believed[believed], 1
        if model.traffic == traffic:
            return model, count
        key = (id(model), traffic)
        if key not in self._carrying:
            self._carrying[key] = model.carrying(traffic)
        return self._carrying[key], count

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
    starts = []
    for one in sources:
        chip = chip_of(one.config, one.hardware)
        if chip is not None:
            starts.append(Anchor(one, chip, _synchronisation_s(one, profile, probes)))
    return tuple(starts)


def fit_workers(
    sources: Sequence[MeasuredSetting], compute: Compute, profile: WorkloadProfile | None, probes: Probes
) -> Workers:
    """Scaling models of the chips that several workers were measured on, or the links between them."""
    groups: dict[tuple[str, str], list[MeasuredSetting]] = {}
    for one in sources:
        if one.setting.gpu_count > 1:
            groups.setdefault((one.setting.gpu, one.setting.parallelism), []).append(one)
    singles = tuple(one for one in compute.starts if one.source.setting.gpu_count == 1)
    alone = replace(compute, starts=singles, _ways={})  # what it remembers is of all starts
    models = {}
    hardware = {one.setting.gpu: one.hardware for one in sources}
    shared = [one.name for one in PARALLELISMS if one.takes(_PAIR)]
    probed = [(gpu, parallelism) for gpu in probes if gpu in hardware for parallelism in shared]
    for key in dict.fromkeys([*groups, *probed]):
        gpu, parallelism = key
        points = [point for one in groups.get(key, ()) for point in _points(one, alone, profile)]
        if points or gpu in probes:
            traffic = points[0].traffic if points else None
            models[key] = fit_scaling(
                points,
                parallelism,
                traffic or traffic_of(parallelism, REFERENCE, (), _PAIR, profile),
                fabric_of(hardware[gpu]),
                probes=probes.get(gpu, ()),
            )
    counts = {key: max(one.setting.gpu_count for one in group) for key, group in groups.items()}
    return Workers(profile=profile, models=models, measured_counts=counts)


def _points(source: MeasuredSetting, alone: Compute, profile: WorkloadProfile | None) -> list[ScalingPoint]:
    """The ends of a setting's line, where one worker of the same chip was measured."""
    line, setting, points = source.line, source.setting, []
    group = Group(rank_count=setting.gpu_count, node_count=setting.node_count)
    mode = PARALLELISMS[setting.parallelism]
    traffic = traffic_of(setting.parallelism, setting.precision, setting.techniques, group, profile)
    if not any(one.source.setting.gpu == source.setting.gpu for one in alone.starts):
        return []
    for size in sorted({line.micro_batch_sizes[0], line.micro_batch_sizes[-1]}):
        for accumulation in sorted({line.accumulations[0], line.accumulations[-1]}):
            one = alone.step(source.config_at(size, accumulation), source.hardware)
            if one is None:
                continue
            whole = WorkerStep(
                micro_batch_s=one.micro_batch_s, accumulation=accumulation, per_step_s=one.optimizer_s
            )
            work = mode.worker_step(whole, group)
            step_s = source.stack_ratio * line.step_time_s(size, accumulation)
            points.append(ScalingPoint(work=work, group=group, step_s=step_s, traffic=traffic))
    return points


def _synchronisation_s(source: MeasuredSetting, profile: WorkloadProfile | None, probes: Probes) -> float:
    """Exposed synchronisation per micro batch of a measured setting, by the link's figures and its probe.

    What is paid once per step, as under DDP, the line already holds in its fixed part where several
    accumulation counts were measured.
    """
    setting, line = source.setting, source.line
    if setting.gpu_count == 1:
        return 0.0
    group = Group(rank_count=setting.gpu_count, node_count=setting.node_count)
    traffic = traffic_of(setting.parallelism, setting.precision, setting.techniques, group, profile)
    if not traffic.per_micro_batch.count and len(line.accumulations) > 1:
        return 0.0
    fabric = fabric_of(source.hardware)
    model = fit_scaling([], setting.parallelism, traffic, fabric, probes=probes.get(setting.gpu, ()))
    size, accumulation = line.micro_batch_sizes[-1], line.accumulations[-1]
    step_s = line.step_time_s(size, accumulation)
    work = WorkerStep(micro_batch_s=0.0, accumulation=accumulation, per_step_s=line.optimizer_s)
    return max(0.0, line.micro_batch_s(size) - model.micro_batch_s(step_s, work, group))
