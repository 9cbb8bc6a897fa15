"""Which configuration of a grid to record next, so that a recording cut off at any time has most. Pure.

Sizes that double come first, precision by precision, until memory runs out; then the sizes between the
largest that fits and the smallest that does not, halving the gap; then torch.compile; then all the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from planner.estimate.setting import Setting, technique_of
from planner.plans.rule_out import rule_out
from trials.measurement import Measurement, Outcome
from trials.measuring.measure import INTERPOLATED_FROM
from trials.trial import FailureKind, Precision, TrialConfig

_PRECISIONS = (Precision.BF16, Precision.FP32, Precision.FP16, Precision.TF32)
_STEPS = 12  # of a trial: warm-up and timed ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the trials of one technique, which differ in their batch, have shown."""

    fitted: int | None = None  # the largest micro batch size that was measured
    throughput_per_s: float | None = None  # of that one
    overflowed: int | None = None  # the smallest that ran out of memory

    @property
    def gap(self) -> tuple[int, int] | None:
        """Micro batch sizes between which memory ends; None where it is not known to end."""
        if self.fitted is None or self.overflowed is None:
            return None
        return self.fitted, self.overflowed


def next_config(
    grid: Sequence[TrialConfig], outcomes: Sequence[Outcome], limit_s: float = math.inf
) -> TrialConfig | None:
    """The next configuration worth a trial; None when all are tried, cannot work or would take too long.

    Args:
        grid: all configurations.
        outcomes: of those that were tried.
        limit_s: seconds that a trial may be expected to take.
    """
    tried, impossible, seen = {one.config for one in outcomes}, rule_out(outcomes), seen_of(outcomes)
    coarse = doubling({one.micro_batch_size for one in grid})
    turns = (
        (_turn(one, known, coarse), index)
        for index, one in enumerate(grid)
        if one not in tried
        and not impossible.has(one)
        and expected_s(one, known := seen.get(technique_of(one), Seen())) <= limit_s
    )
    _, index = min(turns, default=(None, None))
    return None if index is None else grid[index]


def seen_of(outcomes: Iterable[Outcome]) -> dict[Setting, Seen]:
    """By technique."""
    found: dict[Setting, Seen] = {}
    for one in sorted(outcomes, key=lambda one: one.config.micro_batch_size):
        technique, size = technique_of(one.config), one.config.micro_batch_size
        before = found.get(technique, Seen())
        if isinstance(one, Measurement):
            found[technique] = replace(before, fitted=size, throughput_per_s=one.throughput_per_s)
        elif one.kind is FailureKind.OUT_OF_MEMORY and before.overflowed is None:
            found[technique] = replace(before, overflowed=size)
    return found


def doubling(sizes: Iterable[int]) -> frozenset[int]:
    """The smallest size, and each that is at least twice the one before."""
    chosen: list[int] = []
    for size in sorted(sizes):
        if not chosen or size >= 2 * chosen[-1]:
            chosen.append(size)
    return frozenset(chosen)


def expected_s(config: TrialConfig, seen: Seen) -> float:
    """Seconds of the steps of a trial, from the largest micro batch of its technique; 0 without one."""
    if seen.throughput_per_s is None:
        return 0.0
    micro_batch_count = config.accumulation if config.accumulation < INTERPOLATED_FROM else 1 + 3
    return _STEPS * micro_batch_count * config.micro_batch_size / seen.throughput_per_s


def _turn(config: TrialConfig, seen: Seen, coarse: frozenset[int]) -> tuple[int, bool, int, float]:
    """Sorts what is left: stage, technique, size."""
    size, precision = config.micro_batch_size, _PRECISIONS.index(config.precision)
    if "compile" in config.techniques:
        return 2 if size in coarse else 3, ("activation_checkpointing" in config.techniques), precision, size
    if size in coarse:
        return 0, ("activation_checkpointing" in config.techniques), precision, size
    if seen.gap is not None and seen.gap[0] < size < seen.gap[1]:
        middle = abs(math.log(size * size / (seen.gap[0] * seen.gap[1])))
        return 1, ("activation_checkpointing" in config.techniques), precision, middle
    return 3, ("activation_checkpointing" in config.techniques), precision, size
