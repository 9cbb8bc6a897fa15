"""A workload's traces as a function of chip and micro batch size.

Time is linear in the micro batch size, so two traced sizes give every other; the traces of one technique
under one precision make a line for each chip, remembered once drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.estimate.time.chips import Chip
from planner.estimate.time.operations import (
    HALF_BYTES_FRACTION,
    OperationWork,
    StepTime,
    roofline_s,
    step_time,
    work_of,
)
from planner.estimate.time.reference import reference
from planner.modes import PRECISIONS
from trials.api import OperationClass, Trace


@dataclass(frozen=True, slots=True)
class _Line:
    base: float
    per_sample: float

    def at(self, micro_batch_size: float) -> float:
        return max(0.0, self.base + self.per_sample * micro_batch_size)


@dataclass(frozen=True, slots=True)
class _OnChip:
    gpu_s: _Line
    roofline_s: _Line
    optimizer_s: float


@dataclass(frozen=True, slots=True)
class TracedStepTime:
    """Traces of one technique (with or without checkpointing), by precision; at least one."""

    works: dict[str, tuple[OperationWork, ...]]  # ascending in micro batch size
    _lines: dict[Chip, _OnChip] = field(default_factory=dict, repr=False, compare=False)

    @property
    def host_s(self) -> float:
        """Host time of a micro batch: launches, whatever its size."""
        return reference().launch_s * next(iter(self.works.values()))[0].kernel_count

    @property
    def has_convolutions(self) -> bool:
        """Whether a fifth or more of the products' FLOPs are convolutions."""
        work = next(iter(self.works.values()))[0]
        flops = sum(
            flops * count for kind, flops, _, count in work.others if kind == OperationClass.CONVOLUTION
        )
        return flops > 0.2 * work.flops

    def gpu_s(self, chip: Chip, micro_batch_size: float) -> float:
        """Expected GPU time of a micro batch on ``chip``."""
        return self._on(chip).gpu_s.at(micro_batch_size)

    def roofline_s(self, chip: Chip, micro_batch_size: float) -> float:
        """Least time of a micro batch on ``chip``."""
        return self._on(chip).roofline_s.at(micro_batch_size)

    def time(self, chip: Chip, micro_batch_size: float) -> StepTime:
        """Expected time of a step; the optimizer's with all parameters on one worker."""
        on = self._on(chip)
        return StepTime(optimizer_s=on.optimizer_s, gpu_s=on.gpu_s.at(micro_batch_size), host_s=self.host_s)

    def _on(self, chip: Chip) -> _OnChip:
        if chip not in self._lines:
            self._lines[chip] = self._draw(chip)
        return self._lines[chip]

    def _draw(self, chip: Chip) -> _OnChip:
        works, bytes_fraction = self._works(chip.precision)
        first, last = works[0], works[-1]
        times = [step_time(one, chip, bytes_fraction) for one in (first, last)]
        bounds = [roofline_s(one, chip) for one in (first, last)]
        return _OnChip(
            gpu_s=_line(first, last, times[0].gpu_s, times[1].gpu_s),
            roofline_s=_line(first, last, bounds[0], bounds[1]),
            optimizer_s=times[0].optimizer_s,
        )

    def _works(self, precision: str) -> tuple[tuple[OperationWork, ...], float]:
        """The traces to be used for a precision, and the share of their bytes that it moves."""
        if precision in self.works:
            return self.works[precision], 1.0
        is_half = PRECISIONS[precision].is_half
        alike = [one for one in self.works if PRECISIONS[one].is_half == is_half]
        if alike:
            return self.works[alike[0]], 1.0
        fraction = HALF_BYTES_FRACTION if is_half else 1.0 / HALF_BYTES_FRACTION
        return next(iter(self.works.values())), fraction


def traced_steps(traces: Sequence[Trace]) -> dict[tuple[str, ...], TracedStepTime]:
    """Traces by their techniques."""
    steps: dict[tuple[str, ...], TracedStepTime] = {}
    for techniques in {one.techniques for one in traces}:
        works: dict[str, tuple[OperationWork, ...]] = {}
        for trace in sorted(traces, key=lambda one: one.micro_batch_size):
            if trace.techniques == techniques:
                works[trace.precision] = (*works.get(trace.precision, ()), work_of(trace))
        steps[techniques] = TracedStepTime(works)
    return steps


def _line(first: OperationWork, last: OperationWork, low: float, high: float) -> _Line:
    """Through two sizes; proportional to the size where there is one only."""
    if first.micro_batch_size == last.micro_batch_size:
        return _Line(0.0, low / first.micro_batch_size)
    slope = max(0.0, (high - low) / (last.micro_batch_size - first.micro_batch_size))
    return _Line(low - slope * first.micro_batch_size, slope)
