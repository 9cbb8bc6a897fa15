"""Peak memory of one rank: measured, on a measured line, carried over from another setting, or traced.

What is estimated is what PyTorch's allocator reserves (on CPU: the tensors that a process holds), with
NCCL's buffers where there are several workers; the CUDA context is not in it. ``high`` is a one-sided
bound: "fits" when it does not is the error that costs money.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from catalogs.gpus import DeviceKind
from planner.estimate.interval.lognormal import sigmas
from planner.estimate.memory.boundary import parts_of_all
from planner.estimate.memory.breakdown import (
    CONVOLUTION_FRAGMENTATION_FRACTION,
    FRAGMENTATION_FRACTION,
    UPPER_FRACTION,
    UPPER_FRACTION_MEASURED,
    MemoryLine,
    data_parallel_memory,
    fit_memory_line,
    state_bytes,
)
from planner.estimate.scaling.collectives import Transport, fabric_of
from planner.estimate.setting import Setting, setting_of, technique_of
from planner.estimate.values import Basis, Estimate, Hardware
from planner.modes import PARALLELISMS, PRECISIONS
from planner.modes.chosen import traced_part
from planner.modes.terms import StateBytes
from trials.api import Failure, FailureKind, Measurement, OperationClass, Trace, TrialConfig, WorkloadProfile

OTHER_CHIP_FRACTION = 0.08  # workspaces of cuBLAS and cuDNN differ by chip
OTHER_STACK_FRACTION = 0.05  # another torch fuses and rounds otherwise
OTHER_KIND_FRACTION = 0.5  # a CPU process has no caching allocator, but an interpreter and libraries
_MARGIN_CONFIDENCE = 0.9  # the margins of `memory` are one-sided at 95%: two-sided at 90%


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakMemory:
    """What is known of the peak memory of one workload; made by `fit_peak_memory`."""

    points: Mapping[Setting, Mapping[int, int]]  # micro batch size -> largest peak measured
    lines: Mapping[Setting, MemoryLine]  # of settings with two sizes or more
    measured: Mapping[tuple[Setting, TrialConfig], int]
    overflowing: Mapping[Setting, int]  # by `technique_of`, the least micro batch size that ran out
    traces: tuple[Trace, ...]
    state: StateBytes | None
    block_count: int
    fragmentation_fraction: float  # of the workload's tensors
    _alike: dict[Setting, tuple[Setting, ...]] = field(default_factory=dict, repr=False, compare=False)
    _states: dict[tuple[str, str, tuple[str, ...], int, int, Transport | None], float] = field(
        default_factory=dict, repr=False, compare=False
    )

    def peak_memory_bytes(
        self, config: TrialConfig, hardware: Hardware, confidence: float
    ) -> Estimate | None:
        """Peak bytes of the fullest rank of ``config``; None where nothing can be said."""
        setting = setting_of(config, hardware.gpu, hardware.vcpus)
        widen = sigmas(confidence) / sigmas(_MARGIN_CONFIDENCE)
        size = config.micro_batch_size
        measured = self.measured.get((setting, config))
        if measured is not None:
            return _within(float(measured), widen * UPPER_FRACTION_MEASURED, Basis.MEASURED)
        line = self.lines.get(setting)
        if line is not None:
            expected = line.expected_bytes(size, config.accumulation)
            margin = widen * (line.upper_bytes(size, config.accumulation) / expected - 1.0)
            estimate = _within(expected, margin, Basis.INTERPOLATED)
        else:
            found = self._predicted(setting, config, hardware, widen)
            if found is None:
                return None
            estimate = found
        limit = self.overflowing.get(technique_of(config))
        if limit is not None and size >= limit and hardware.gpu.kind is DeviceKind.GPU:
            return _at_least(estimate, float(hardware.gpu.memory_bytes))
        return estimate

    def _predicted(
        self, setting: Setting, config: TrialConfig, hardware: Hardware, widen: float
    ) -> Estimate | None:
        """From the most alike measured setting on such a device, else a trace, else any setting."""
        if setting not in self._alike:
            kept = traced_part(setting.techniques)
            same = (one for one in self.points if traced_part(one.techniques) == kept)
            self._alike[setting] = tuple(sorted(same, key=lambda one: self._unlikeness(one, setting)))
        alike = self._alike[setting]
        is_cpu = setting.vcpus is not None
        same_kind = [one for one in alike if (one.vcpus is not None) == is_cpu]
        if same_kind:
            return self._carried(same_kind[0], config, hardware, widen)
        traced = self._traced(config, hardware, widen)
        if traced is not None or not alike:
            return traced
        return self._carried(alike[0], config, hardware, widen, OTHER_KIND_FRACTION)

    def _unlikeness(self, one: Setting, other: Setting) -> tuple[bool | float, ...]:
        return (
            one.precision != other.precision,
            one.gpu != other.gpu,
            one.parallelism != other.parallelism,
            abs(math.log(one.gpu_count / other.gpu_count)),
            one not in self.lines,
            one.older_stack is not None,
        )

    def _carried(
        self, source: Setting, config: TrialConfig, hardware: Hardware, widen: float, margin: float = 0.0
    ) -> Estimate:
        """A measured setting's line, its state taken off and that of ``config`` put on."""
        sizes = self.points[source]
        size, line = config.micro_batch_size, self.lines.get(source)
        if source.older_stack is not None:
            margin = max(margin, OTHER_STACK_FRACTION)
        if source.gpu != config.gpu or source.precision != config.precision:
            margin = max(margin, OTHER_CHIP_FRACTION)
        if line is not None:
            expected = line.expected_bytes(size, config.accumulation)
            margin += line.upper_bytes(size, config.accumulation) / expected - 1.0
            low = high = expected
        else:
            known = min(sizes, key=lambda one: abs(math.log(one / size)))
            fixed = self._state_on(source, hardware)
            fixed = min(fixed, 0.95 * sizes[known])
            expected = fixed + (sizes[known] - fixed) * size / known
            ends = (float(sizes[known]), sizes[known] * size / known)  # all fixed, or all proportional
            low, high = min(*ends, expected), max(*ends, expected)
        before = self._state_on(source, hardware)
        moved = self._state_on(config, hardware) - before
        floor = 0.1 * expected
        expected, low, high = (max(floor, one + moved) for one in (expected, low, high))
        if moved != 0.0:
            margin = math.hypot(margin, UPPER_FRACTION)
        factor = 1.0 + widen * max(margin, UPPER_FRACTION_MEASURED)
        return Estimate(low=low / factor, expected=expected, high=high * factor, basis=Basis.PREDICTED)

    def _traced(self, config: TrialConfig, hardware: Hardware, widen: float) -> Estimate | None:
        keeps_gradients = config.accumulation > 1 or PARALLELISMS[config.parallelism].keeps_gradients
        line = self._trace_line(config, keeps_gradients=keeps_gradients)
        if line is None or self.state is None:
            return None
        peak_bytes = line.expected_bytes(config.micro_batch_size, 2 if keeps_gradients else 1)
        state = self.state.parameters + self.state.gradients + self.state.optimizer
        activations = max(0.0, peak_bytes - state)
        parts = data_parallel_memory(
            self.state,
            activations,
            parallelism=config.parallelism,
            worker_count=config.gpu_count,
            node_count=config.node_count,
            precision=config.precision,
            techniques=config.techniques,
            block_count=self.block_count,
            transport=_transport(hardware),
            fragmentation_fraction=self.fragmentation_fraction,
        )
        return _within(parts.total_bytes - parts.context, widen * UPPER_FRACTION, Basis.PREDICTED)

    def _trace_line(self, config: TrialConfig, *, keeps_gradients: bool) -> MemoryLine | None:
        """Of the passes with gradients kept, over the update; of the nearest precision that was traced.

        The passes are the fullest when backward begins, so that their peak is linear. Small batches of large
        models peak in the update, which tells nothing of activations.
        """
        alike = [one for one in self.traces if one.techniques == traced_part(config.techniques)]
        if not alike:
            return None
        half = PRECISIONS[config.precision].is_half
        precision = min(
            (one.precision for one in alike),
            key=lambda name: (name != config.precision, PRECISIONS[name].is_half != half),
        )
        alike = [one for one in alike if one.precision == precision]
        update_bytes = max(one.update_bytes for one in alike)
        gradient_bytes = float(alike[0].gradient_bytes) if update_bytes else 0.0
        points = [
            (
                one.micro_batch_size,
                one.passes_bytes or (one.peak_accumulating_bytes if keeps_gradients else one.peak_bytes),
            )
            for one in alike
        ]
        line = fit_memory_line(points)
        if line is None:  # one size: what is no state grows with it
            ((size, peak_bytes), *_) = points
            state_bytes = alike[0].parameter_bytes + alike[0].gradient_bytes + alike[0].optimizer_bytes
            slope = max(0.0, peak_bytes - state_bytes) / size
            line = MemoryLine(base_bytes=state_bytes, per_sample_bytes=slope, sizes=(size,))
        return replace(line, floor_bytes=update_bytes, gradient_bytes=gradient_bytes)

    def _state_on(self, on: Setting | TrialConfig, hardware: Hardware) -> float:
        """Bytes of state and copies of a rank, without activations; 0 where the state is unknown."""
        if self.state is None:
            return 0.0
        transport = _transport(hardware)
        key = (on.parallelism, on.precision, on.techniques, on.gpu_count, on.node_count, transport)
        if key not in self._states:
            parts = data_parallel_memory(
                self.state,
                0.0,
                parallelism=on.parallelism,
                worker_count=on.gpu_count,
                node_count=on.node_count,
                precision=on.precision,
                techniques=on.techniques,
                block_count=self.block_count,
                transport=transport,
            )
            self._states[key] = parts.total_bytes - parts.context
        return self._states[key]


def fit_peak_memory(
    by_setting: Mapping[Setting, Sequence[Measurement]],
    profile: WorkloadProfile | None,
    failures: Sequence[Failure],
) -> PeakMemory:
    """Peaks and lines by setting, and the state that the profile knows."""
    points: dict[Setting, dict[int, int]] = {}
    for setting, group in by_setting.items():
        peaks = points.setdefault(setting, {})
        for one in group:
            size = one.config.micro_batch_size
            peaks[size] = max(peaks.get(size, 0), one.peak_memory_bytes)
    state = _state(profile)
    lines = {setting: _line(group, state) for setting, group in by_setting.items()}
    overflowing: dict[Setting, int] = {}
    for failure in failures:
        if failure.kind is FailureKind.OUT_OF_MEMORY:
            key, size = technique_of(failure.config), failure.config.micro_batch_size
            overflowing[key] = min(overflowing.get(key, size), size)
    return PeakMemory(
        points=points,
        lines={setting: line for setting, line in lines.items() if line is not None},
        measured={
            (setting, one.config): one.peak_memory_bytes
            for setting, group in by_setting.items()
            for one in group
        },
        overflowing=overflowing,
        traces=() if profile is None else profile.traces,
        state=state,
        block_count=0 if profile is None else profile.block_count,
        fragmentation_fraction=_fragmentation_fraction(profile),
    )


def _line(group: Sequence[Measurement], state: StateBytes | None) -> MemoryLine | None:
    """Of the passes, where all know their peak apart from the update's; else of the whole peak.

    A step's only micro batch has no gradients beside its activations: its peak is put on the line of the
    others with what they hold more when they begin, as measured, or with the state's gradients.
    """
    parts = parts_of_all(group)
    if parts is None:
        return fit_memory_line((one.config.micro_batch_size, one.peak_memory_bytes) for one in group)
    lone = [one.config.accumulation == 1 for one in group]
    first = [one.base_bytes for one, is_lone in zip(parts, lone, strict=True) if is_lone]
    later = [one.base_bytes for one, is_lone in zip(parts, lone, strict=True) if not is_lone]
    if first and later:
        gradients = max(0.0, median(later) - median(first))
    else:  # whole under FSDP2 too: they are scattered with the last micro batch
        gradients = 0.0 if state is None else state.gradients
    line = fit_memory_line(
        (one.config.micro_batch_size, known.passes_bytes + is_lone * gradients)
        for one, known, is_lone in zip(group, parts, lone, strict=True)
    )
    floor = max((one.update_bytes for one in parts), default=0)
    return None if line is None else replace(line, floor_bytes=floor, gradient_bytes=gradients)


def _fragmentation_fraction(profile: WorkloadProfile | None) -> float:
    traces = () if profile is None else profile.traces[:1]
    kinds = {one.kind for trace in traces for one in trace.operations}
    is_convolving = OperationClass.CONVOLUTION in kinds
    return CONVOLUTION_FRAGMENTATION_FRACTION if is_convolving else FRAGMENTATION_FRACTION


def _state(profile: WorkloadProfile | None) -> StateBytes | None:
    if profile is None:
        return None
    if not profile.traces:
        return state_bytes(profile.parameter_count, trainable_count=profile.trainable_parameter_count)
    trace = profile.traces[0]
    return StateBytes(
        parameters=float(trace.parameter_bytes),
        gradients=float(trace.gradient_bytes),
        optimizer=float(trace.optimizer_bytes),
    )


def _transport(hardware: Hardware) -> Transport | None:
    return None if hardware.gpu.kind is DeviceKind.CPU else fabric_of(hardware).intra.transport


def _within(expected: float, margin: float, basis: Basis) -> Estimate:
    return Estimate(
        low=expected / (1.0 + margin), expected=expected, high=expected * (1.0 + margin), basis=basis
    )


def _at_least(estimate: Estimate, floor: float) -> Estimate:
    return Estimate(
        low=estimate.low,
        expected=max(estimate.expected, floor),
        high=max(estimate.high, floor),
        basis=estimate.basis,
    )
