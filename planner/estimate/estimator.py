"""From what was measured to any configuration on any chip and count, with an error bar.

A measured configuration is its measurement; another batch of a measured setting lies on the setting's line.
Everything else is one worker's time (`compute`), brought to several workers (`scaling`), and widened by how
often such predictions were wrong where the truth is known (`interval`). None is faster than the roofline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from catalogs.gpus import Gpu
from planner.estimate.interval.conformal import Ground, half_width, multiplier
from planner.estimate.interval.lognormal import mean_of, sigmas
from planner.estimate.memory.peak_memory import PeakMemory, fit_peak_memory
from planner.estimate.memory.usable_memory import measured_usable_bytes, usable_memory_bytes
from planner.estimate.setting import Setting, setting_measured, setting_of
from planner.estimate.software_stack import stack_changes
from planner.estimate.time.line import StepTimeLine
from planner.estimate.time.loading import otherwise_loaded, simpler_loadings
from planner.estimate.time.measured import measured_settings
from planner.estimate.time.traced import traced_steps
from planner.estimate.transfer.compute import Compute, fit_compute, traced_optimizer_s
from planner.estimate.transfer.cross_workload import CrossWorkloadRatios
from planner.estimate.values import Basis, Estimate, Hardware
from planner.estimate.workers import Workers, fit_workers, probes_by_gpu, reduce_to_one, scaling_multiplier
from trials.api import Failure, Loading, Measurement, Outcome, TrialConfig, WorkloadProfile

RUN_TO_RUN_FRACTION = 0.02
"""Floor of the half width of any measured time: two runs of the same step on the same cloud GPU type differ
by about this much from clocks, placement and temperature, which the steps of one run do not show."""
NEAR_LOG_DISTANCE = math.log(2.0)  # up to twice or half a measured micro batch counts as near


def fit(
    outcomes: Sequence[Outcome],
    *,
    gpus: Mapping[str, Gpu],
    profile: WorkloadProfile | None = None,
    confidence: float = 0.9,
    cross_workload: Mapping[tuple[str, str], CrossWorkloadRatios] | None = None,
    name: str = "",
    is_training: bool = True,
    tensor_count: int = 1,
) -> Estimator:
    """An estimator of one workload from its trials, its trace and the catalog's chips.

    Args:
        outcomes: of one workload's trials; measurements on chips that ``gpus`` lacks are left out, and an
            out-of-memory failure raises the peak memory estimate of its configuration.
        gpus: catalog by name.
        profile: what `planner check` found; its traces carry estimates where nothing was measured.
        confidence: that the truth lies in an estimate's interval.
        cross_workload: other workloads measured on two chips (`cross_workload_ratios`), which correct
            the way from one chip to the other.
        name: of this workload, should it be among those.
        is_training: False where a step is one forward pass (recordings of inference).
        tensor_count: ranks of one node that share each matrix, where every worker measured and asked for is
            such a rank; the trace, which is of a whole model, then says nothing.
    """
    measurements = [one for one in outcomes if isinstance(one, Measurement)]
    failures = [one for one in outcomes if isinstance(one, Failure)]
    traced = traced_steps(profile.traces) if profile is not None and tensor_count == 1 else {}
    # lines are of steps whose data is loaded as the file has it; other ways stand for themselves
    plain = [one for one in measurements if one.config.loading == Loading()]
    sources = measured_settings(plain, gpus, partial(traced_optimizer_s, traced))
    probes = probes_by_gpu(measurements)
    starts = reduce_to_one(sources, profile, probes)
    compute = fit_compute(
        starts, traced, cross_workload, name=name, is_training=is_training, tensor_count=tensor_count
    )
    known = [one for one in measurements if one.config.gpu in gpus]
    changes = stack_changes(measurements)
    by_setting: dict[Setting, list[Measurement]] = {}
    for one in known:
        setting = setting_measured(one, gpus[one.config.gpu], changes)
        by_setting.setdefault(setting, []).append(one)
    return Estimator(
        exact={(setting, one.config): one for setting, group in by_setting.items() for one in group},
        lines={one.setting: one.line for one in sources},
        compute=compute,
        workers=fit_workers(sources, compute, profile, probes),
        capacity=fit_peak_memory(by_setting, profile, failures),
        usable_bytes=measured_usable_bytes(measurements),
        confidence=confidence,
        has_older_stacks=bool(changes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Step time, throughput and peak memory of one workload; made by `fit`."""

    exact: Mapping[tuple[Setting, TrialConfig], Measurement]
    lines: Mapping[Setting, StepTimeLine]
    compute: Compute
    workers: Workers
    capacity: PeakMemory
    usable_bytes: Mapping[str, int]  # by GPU, where trials said it
    confidence: float
    has_older_stacks: bool  # whose lines may know a size better than the newest stack's
    _times: dict[tuple[TrialConfig, Hardware], Estimate | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    def step_time_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Seconds per optimizer step; None where nothing can be said."""
        key = (config, hardware)
        if key not in self._times:
            self._times[key] = self._step_time_s(config, hardware)
        return self._times[key]

    def throughput_per_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Samples per second over all workers; None where nothing can be said."""
        step = self.step_time_s(config, hardware)
        return None if step is None else step.inverse(float(config.global_batch_size))

    def peak_memory_bytes(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Peak bytes of the fullest rank; ``high`` is the upper bound to be used for "fits"."""
        return self.capacity.peak_memory_bytes(config, hardware, self.confidence)

    def usable_memory_bytes(self, config: TrialConfig, gpu: Gpu, memory_bytes: int) -> int:
        """What a worker may reserve of CUDA's total of a GPU, or of a host's memory."""
        return usable_memory_bytes(gpu.kind, memory_bytes, config, self.usable_bytes.get(gpu.name))

    def host_fraction(self, config: TrialConfig, hardware: Hardware) -> float | None:
        """Expected share of the step that is the host's or latency: a faster GPU would not shorten it.

        Near 1 the step is host-bound, and its time depends on the machine's CPU more than on its GPU. None
        where nothing was measured, where the chip lacks the precision, and on CPU, which is the host.
        """
        return self.compute.host_fraction(config, hardware)

    def _otherwise_loaded(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Where all but one knob of loading was measured: as its phases say; else nothing can be said."""
        setting = setting_of(config, hardware.gpu, hardware.vcpus)
        for simpler in simpler_loadings(config.loading):
            near = self.exact.get((setting, config.loaded(simpler)))
            if near is None or near.phases is None:
                continue
            ratio, spread = otherwise_loaded(near, config.loading)
            half = half_width(Ground.LINE, spread, near.half_width_fraction / 2.0, self.confidence)
            return self._around(near.step_time_s / ratio, half, half, Basis.PREDICTED)
        return None

    def _step_time_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        setting = setting_of(config, hardware.gpu, hardware.vcpus)
        measured = self.exact.get((setting, config))
        if measured is not None:
            half = RUN_TO_RUN_FRACTION + measured.half_width_fraction
            half *= multiplier(Ground.LINE, self.confidence) / multiplier(Ground.LINE, 0.9)
            return Estimate(
                low=measured.step_time_s * math.exp(-half),
                expected=measured.step_time_s,
                high=measured.step_time_s * math.exp(half),
                basis=Basis.INTERPOLATED if measured.is_interpolated else Basis.MEASURED,
            )
        if config.loading != Loading():
            return self._otherwise_loaded(config, hardware)
        line = self.lines.get(setting)
        is_near = line is not None and line.distance(config.micro_batch_size) <= NEAR_LOG_DISTANCE
        if line is not None and (is_near or not self.has_older_stacks):
            spread = line.log_spread(config.micro_batch_size, config.accumulation)
            half = half_width(Ground.LINE, spread, line.log_noise, self.confidence)
            middle_s = line.step_time_s(config.micro_batch_size, config.accumulation)
            return self._around(middle_s, half, half, Basis.INTERPOLATED if is_near else Basis.PREDICTED)
        alone = self.compute.step(config, hardware)
        if alone is None:
            return None
        together = self.workers.step(alone, config, hardware)
        half = half_width(alone.ground, alone.log_spread, alone.log_noise, self.confidence)
        reach = scaling_multiplier(self.confidence)
        return self._around(
            together.step_s,
            math.hypot(half, reach * together.log_below),
            math.hypot(half, reach * together.log_above),
            Basis.PREDICTED,
            floor=config.accumulation * self.compute.floor_s(config, hardware),
        )

    def _around(
        self, middle: float, below: float, above: float, basis: Basis, floor: float = 0.0
    ) -> Estimate:
        """Log-normal to either side of the median, ``below`` and ``above`` it in log; not under ``floor``."""
        low, middle, high = (
            max(floor, one) for one in (middle * math.exp(-below), middle, middle * math.exp(above))
        )
        spreads = (math.log(one) / sigmas(self.confidence) for one in (middle / low, high / middle))
        expected = min(max(low, mean_of(middle, *spreads)), high)
        return Estimate(low=low, expected=expected, high=high, basis=basis)
