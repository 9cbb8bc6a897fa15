"""From what was measured to any configuration on any chip and count, with an error bar.

An estimate starts at the nearest measured setting, follows its line to the batch asked for, and multiplies
by what changes on the way: precision, checkpointing, compilation, chip, workers. Each of these factors
adds its spread in quadrature, and the distance between settings is the spread of the way. With no
measurement, the way starts at the trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

from catalogs.gpus import DeviceKind, Gpu
from planner.estimate.capacity import Capacity, fit_capacity
from planner.estimate.chips import worker_rates
from planner.estimate.compute import (
    TRACE_ALONE_LOG_SPREAD,
    chip_ratio,
    roofline_time,
    traced_ratio,
    traced_time,
)
from planner.estimate.measured import RUN_TO_RUN_FRACTION, Line, Setting, fit_line, setting_of
from planner.estimate.sync import synchronisation
from planner.estimate.values import Basis, Estimate, Hardware
from trials.profile import Trace, WorkloadProfile
from trials.trial import Failure, Measurement, Parallelism, TrialConfig

NEAR_LOG_DISTANCE = math.log(2.0)  # up to twice or half a measured micro batch counts as near
CHECKPOINT_FACTOR = 4.0 / 3.0  # one more forward on top of forward and backward (twice a forward)
_CHECKPOINT_LOG_SPREAD = 0.12
_COMPILE_FACTOR = 0.9
_COMPILE_LOG_SPREAD = 0.35
_PRECISION_LOG_SPREAD = 0.35
_CPU_TO_GPU_LOG_SPREAD = 1.2
_CPU_COUNT_LOG_SPREAD = 0.3  # per e-fold of vCPUs: threads scale imperfectly
_WORKERS_LOG_SPREAD = 0.1
_SPREAD_CONFIDENCE = 0.9  # the spreads above are half widths at this confidence


def fit(
    measurements: Sequence[Measurement],
    *,
    gpus: Mapping[str, Gpu],
    profile: WorkloadProfile | None = None,
    failures: Sequence[Failure] = (),
    confidence: float = 0.9,
) -> Estimator:
    """An estimator of one workload from its measurements, its trace and the catalog's chips.

    Args:
        measurements: of one workload; those on chips that ``gpus`` lacks are left out.
        gpus: catalog by name.
        profile: what `planner check` found; its traces carry estimates where nothing was measured.
        failures: an out-of-memory failure raises the peak memory estimate of its configuration.
        confidence: that the truth lies in an estimate's interval.
    """
    by_setting: dict[Setting, list[Measurement]] = {}
    for one in measurements:
        if one.config.gpu in gpus:
            setting = setting_of(one.config, gpus[one.config.gpu], one.environment.host_cpu_count)
            by_setting.setdefault(setting, []).append(one)
    return Estimator(
        lines={setting: fit_line(group) for setting, group in by_setting.items()},
        exact={(setting, one.config): one for setting, group in by_setting.items() for one in group},
        hardware={setting: _measured_on(group[-1], gpus) for setting, group in by_setting.items()},
        capacity=fit_capacity(by_setting, profile, failures),
        traces=profile.traces if profile is not None else (),
        parameter_count=profile.trainable_parameter_count if profile is not None else None,
        widen=NormalDist().inv_cdf((1 + confidence) / 2) / NormalDist().inv_cdf((1 + _SPREAD_CONFIDENCE) / 2),
    )


def _measured_on(measurement: Measurement, gpus: Mapping[str, Gpu]) -> Hardware:
    gpu = gpus[measurement.config.gpu]
    return Hardware(gpu=gpu, link=gpu.link, vcpus=measurement.environment.host_cpu_count)


@dataclass(frozen=True, slots=True)
class _Guess:
    """A time on its way: the middle, the half width in log at 90%, and what it rests on."""

    expected_s: float
    log_spread: float
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Step time, throughput and peak memory of one workload; made by `fit`."""

    lines: Mapping[Setting, Line]
    exact: Mapping[tuple[Setting, TrialConfig], Measurement]
    hardware: Mapping[Setting, Hardware]  # that each setting was measured on
    capacity: Capacity
    traces: tuple[Trace, ...]
    parameter_count: int | None
    widen: float  # from spreads at 90% to the confidence asked for
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
        setting = setting_of(config, hardware.gpu, hardware.vcpus)
        return self.capacity.peak_memory_bytes(config, setting, self.widen)

    def _step_time_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        setting = setting_of(config, hardware.gpu, hardware.vcpus)
        measured = self.exact.get((setting, config))
        if measured is not None:
            half = RUN_TO_RUN_FRACTION + measured.half_width_fraction
            guess = _Guess(measured.step_time_s, half, Basis.MEASURED)
        elif setting in self.lines:
            guess = _on_line(self.lines[setting], config)
        else:
            ways = [self._way(source, setting, config, hardware) for source in self.lines]
            found = [one for one in (*ways, self._from_trace(config, hardware)) if one is not None]
            if not found:
                return None
            guess = min(found, key=lambda one: one.log_spread)
        return self._bounded(guess, config, hardware)

    def _way(
        self, source: Setting, target: Setting, config: TrialConfig, hardware: Hardware
    ) -> _Guess | None:
        """From the line of ``source`` to ``config`` on ``hardware``, which no line covers."""
        before = replace(
            config,
            gpu=source.gpu,
            gpu_count=source.gpu_count,
            node_count=source.node_count,
            precision=source.precision,
            parallelism=source.parallelism,
            is_checkpointed=source.is_checkpointed,
            is_compiled=source.is_compiled,
        )
        home = self.hardware[source]
        rates_before, rates_after = worker_rates(before, home), worker_rates(config, hardware)
        if rates_before is None or rates_after is None:
            return None
        start = _on_line(self.lines[source], before)
        compute_s = self._without_synchronisation(start.expected_s, before, home)
        spreads = [start.log_spread]
        if (source.gpu, source.vcpus, source.precision) != (target.gpu, target.vcpus, target.precision):
            old, new = (
                self._trace(before),
                self._trace(replace(config, is_checkpointed=source.is_checkpointed)),
            )
            ratio, spread = (
                chip_ratio(rates_before, rates_after)
                if old is None or new is None
                else traced_ratio(old, rates_before, new, rates_after)
            )
            compute_s *= ratio
            spreads.append(spread + self._kind_spread(home, hardware))
        if source.precision != target.precision:
            spreads.append(_PRECISION_LOG_SPREAD)
        if source.is_checkpointed != target.is_checkpointed:
            compute_s *= CHECKPOINT_FACTOR if target.is_checkpointed else 1 / CHECKPOINT_FACTOR
            spreads.append(_CHECKPOINT_LOG_SPREAD)
        if source.is_compiled != target.is_compiled:
            compute_s *= _COMPILE_FACTOR if target.is_compiled else 1 / _COMPILE_FACTOR
            spreads.append(_COMPILE_LOG_SPREAD)
        expected_s, spread = self._with_synchronisation(compute_s, config, hardware)
        spreads.append(spread)
        if source.gpu_count != target.gpu_count:
            spreads.append(_WORKERS_LOG_SPREAD)
        return _Guess(expected_s, math.hypot(*spreads), Basis.PREDICTED)

    def _from_trace(self, config: TrialConfig, hardware: Hardware) -> _Guess | None:
        trace, rates = self._trace(config), worker_rates(config, hardware)
        if trace is None or rates is None:
            return None
        time = traced_time(trace, rates)
        micro_s = time.per_micro_s * config.micro_batch_size / trace.micro_batch_size
        expected_s, spread = self._with_synchronisation(
            time.fixed_s + micro_s * config.accumulation, config, hardware
        )
        return _Guess(expected_s, math.hypot(TRACE_ALONE_LOG_SPREAD, spread), Basis.PREDICTED)

    def _trace(self, config: TrialConfig) -> Trace | None:
        """The trace nearest to ``config``: same checkpointing and precision first, then batch size."""
        if not self.traces:
            return None
        return min(
            self.traces,
            key=lambda one: (
                one.is_checkpointed != config.is_checkpointed,
                one.precision is not config.precision,
                abs(math.log(one.micro_batch_size / config.micro_batch_size)),
            ),
        )

    def _with_synchronisation(
        self, compute_s: float, config: TrialConfig, hardware: Hardware
    ) -> tuple[float, float]:
        if config.gpu_count == 1 or config.parallelism is Parallelism.SINGLE:
            return compute_s, 0.0
        if self.parameter_count is None:
            return compute_s * math.sqrt(2.0), math.log(2.0) / 2  # between perfect scaling and none of use
        exposed = synchronisation(config, hardware, self.parameter_count, compute_s)
        low_s, high_s = compute_s + exposed.all_hidden_s, compute_s + exposed.none_hidden_s
        return math.sqrt(low_s * high_s), 0.5 * math.log(high_s / low_s)

    def _without_synchronisation(self, step_s: float, config: TrialConfig, hardware: Hardware) -> float:
        if config.gpu_count == 1 or config.parallelism is Parallelism.SINGLE or self.parameter_count is None:
            return step_s
        exposed = synchronisation(config, hardware, self.parameter_count, step_s)
        return max(0.5 * step_s, step_s - 0.5 * (exposed.all_hidden_s + exposed.none_hidden_s))

    def _kind_spread(self, home: Hardware, hardware: Hardware) -> float:
        if home.gpu.kind is not hardware.gpu.kind:
            return _CPU_TO_GPU_LOG_SPREAD
        if home.gpu.kind is DeviceKind.CPU and home.vcpus and hardware.vcpus:
            return _CPU_COUNT_LOG_SPREAD * abs(math.log(home.vcpus / hardware.vcpus))
        return 0.0

    def _bounded(self, guess: _Guess, config: TrialConfig, hardware: Hardware) -> Estimate:
        """The interval, never below the roofline where the trace gives one."""
        spread = guess.log_spread * self.widen
        low_s, high_s = guess.expected_s * math.exp(-spread), guess.expected_s * math.exp(spread)
        expected_s = guess.expected_s
        trace, rates = self._trace(config), worker_rates(config, hardware)
        if guess.basis is Basis.PREDICTED and trace is not None and rates is not None:
            bound = roofline_time(trace, rates)
            micro_s = bound.per_micro_s * config.micro_batch_size / trace.micro_batch_size
            floor_s = bound.fixed_s + micro_s * config.accumulation
            low_s, expected_s, high_s = (max(one, floor_s) for one in (low_s, expected_s, high_s))
        return Estimate(low=low_s, expected=expected_s, high=high_s, basis=guess.basis)


def _on_line(line: Line, config: TrialConfig) -> _Guess:
    is_near = line.distance(config.micro_batch_size) <= NEAR_LOG_DISTANCE
    return _Guess(
        line.step_time_s(config.micro_batch_size, config.accumulation),
        line.log_spread(config.micro_batch_size, config.accumulation),
        Basis.INTERPOLATED if is_near else Basis.PREDICTED,
    )
