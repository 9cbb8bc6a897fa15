"""Peak memory: a line in the micro batch size through what was measured, else the trace with a margin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.estimate.measured import Setting
from planner.estimate.values import Basis, Estimate
from trials.profile import Trace, WorkloadProfile
from trials.trial import Failure, FailureKind, Measurement, Parallelism, TrialConfig

MEASURED_SPREAD = 0.02  # allocator blocks and fragmentation differ between runs
OTHER_CHIP_SPREAD = 0.08  # workspaces of cuBLAS and cuDNN differ by chip
LINE_SPREAD = 0.03
TRACE_SPREAD = 0.25  # fragmentation and workspaces that the trace does not see
_STATE_BYTES_PER_PARAMETER = 16  # parameter, gradient, two Adam moments in fp32


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """peak = base + per_sample * micro batch size, of one setting."""

    base_bytes: float
    per_sample_bytes: float
    micro_batch_sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What is known of the peak memory of one workload."""

    lines: Mapping[Setting, MemoryLine]
    measured: Mapping[tuple[Setting, TrialConfig], int]
    overflowed: frozenset[TrialConfig]
    traces: tuple[Trace, ...]

    def peak_memory_bytes(self, config: TrialConfig, setting: Setting, widen: float) -> Estimate | None:
        """Peak bytes of the fullest rank of ``config``; None where nothing can be said."""
        exact = self.measured.get((setting, config))
        if exact is not None:
            return _estimate(float(exact), MEASURED_SPREAD, MEASURED_SPREAD, Basis.MEASURED)
        line = self.lines.get(setting)
        if line is not None:
            return _from_line(line, config, widen, LINE_SPREAD, Basis.INTERPOLATED)
        alike = [one for one in self.lines if _is_alike(one, setting)]
        if alike:
            most = max(alike, key=lambda one: self.lines[one].micro_batch_sizes[-1])
            return _from_line(self.lines[most], config, widen, OTHER_CHIP_SPREAD, Basis.PREDICTED)
        return self._from_trace(config, widen)

    def _from_trace(self, config: TrialConfig, widen: float) -> Estimate | None:
        alike = [one for one in self.traces if one.is_checkpointed == config.is_checkpointed]
        if not alike:
            return None
        trace = min(
            alike,
            key=lambda one: (
                one.precision is not config.precision,
                abs(math.log(one.micro_batch_size / config.micro_batch_size)),
            ),
        )
        state = trace.parameter_bytes + trace.gradient_bytes + trace.optimizer_bytes
        activations = max(0.0, trace.peak_bytes - state) * config.micro_batch_size / trace.micro_batch_size
        shards = config.gpu_count if config.parallelism is Parallelism.FSDP2 else 1
        buckets = trace.gradient_bytes if config.parallelism is Parallelism.DDP else 0
        return _estimate(
            state / shards + buckets + activations,
            TRACE_SPREAD * widen,
            TRACE_SPREAD * widen,
            Basis.PREDICTED,
        )


def fit_capacity(
    by_setting: Mapping[Setting, Sequence[Measurement]],
    profile: WorkloadProfile | None,
    failures: Sequence[Failure],
) -> Capacity:
    """Lines of peak memory by setting."""
    parameters = None if profile is None else profile.trainable_parameter_count
    return Capacity(
        lines={setting: _fit_line(group, setting, parameters) for setting, group in by_setting.items()},
        measured={
            (setting, one.config): one.peak_memory_bytes
            for setting, group in by_setting.items()
            for one in group
        },
        overflowed=frozenset(one.config for one in failures if one.kind is FailureKind.OUT_OF_MEMORY),
        traces=() if profile is None else profile.traces,
    )


def _fit_line(group: Sequence[Measurement], setting: Setting, parameters: int | None) -> MemoryLine:
    """Through the smallest and largest micro batch, or from the known state bytes where there is one."""
    peaks: dict[int, int] = {}
    for one in group:
        size = one.config.micro_batch_size
        peaks[size] = max(peaks.get(size, 0), one.peak_memory_bytes)
    sizes = tuple(sorted(peaks))
    if len(sizes) > 1:
        slope = max(0.0, (peaks[sizes[-1]] - peaks[sizes[0]]) / (sizes[-1] - sizes[0]))
    else:
        shards = setting.gpu_count if setting.parallelism is Parallelism.FSDP2 else 1
        state = _STATE_BYTES_PER_PARAMETER * (parameters or 0) / shards
        slope = max(0.1 * peaks[sizes[0]], peaks[sizes[0]] - state) / sizes[0]
    base = max(peaks[size] - slope * size for size in sizes)
    return MemoryLine(base_bytes=base, per_sample_bytes=slope, micro_batch_sizes=sizes)


def _from_line(line: MemoryLine, config: TrialConfig, widen: float, spread: float, basis: Basis) -> Estimate:
    size = config.micro_batch_size
    expected = line.base_bytes + line.per_sample_bytes * size
    if len(line.micro_batch_sizes) > 1:
        return _estimate(expected, spread * widen, spread * widen, basis)
    (known,) = line.micro_batch_sizes
    peak = line.base_bytes + line.per_sample_bytes * known
    others = (expected, peak, peak * size / known)  # the slope is unknown: constant, or all proportional
    return Estimate(
        low=min(others) * math.exp(-spread * widen),
        expected=expected,
        high=max(others) * math.exp(spread * widen),
        basis=basis,
    )


def _is_alike(one: Setting, other: Setting) -> bool:
    """The same technique and count on another chip of the same kind."""
    mine = (one.gpu_count, one.precision, one.parallelism, one.is_checkpointed, one.is_compiled)
    yours = (other.gpu_count, other.precision, other.parallelism, other.is_checkpointed, other.is_compiled)
    return mine == yours and (one.vcpus is None) == (other.vcpus is None)


def _estimate(expected: float, below: float, above: float, basis: Basis) -> Estimate:
    return Estimate(
        low=expected * math.exp(-below), expected=expected, high=expected * math.exp(above), basis=basis
    )
