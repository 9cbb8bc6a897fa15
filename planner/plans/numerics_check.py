"""Does a reduced precision or a compiler still train the model? Two loss curves over the same data say. Pure.

The winner and the same configuration in plain fp32 take the same steps from the same weights over the same
samples, so that their losses can be compared step by step. Rounding makes the two drift apart by little and
to either side; arithmetic that is not up to the model does not descend, or climbs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from planner.modes import TECHNIQUES
from planner.modes.chosen import Arithmetic, arithmetic_of
from planner.modes.precision import REFERENCE
from trials.api import Failure, FailureKind, Measurement, Outcome, Purpose, TrialConfig

STEP_COUNT_MIN = 20  # fewer say nothing of how a curve goes on
PROGRESS_LOST_MAX = 1 / 3  # of the reference's progress; fp16 skips a few steps until it finds its scale
LEVEL_FRACTION = 0.02  # of the loss itself: no arithmetic agrees to the last digit
SIGMAS = 4.0  # of the paired differences' mean
_TAIL_FRACTION = 1 / 3  # of the steps, whose mean is compared
_HEAD_COUNT = 3  # first steps, from which progress is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Two curves, and why the first was rejected."""

    config: TrialConfig
    losses: tuple[float, ...]  # empty where the trial ended without finite losses
    reference: TrialConfig
    reference_losses: tuple[float, ...]
    rejection: str  # in words; "" where the configuration trains as its reference does


def reference_of(config: TrialConfig) -> TrialConfig:
    """The same in plain fp32."""
    kept = tuple(one for one in config.techniques if not TECHNIQUES[one].has_own_numerics)
    return replace(config, precision=REFERENCE, techniques=kept)


def judge(losses: Sequence[float], reference: Sequence[float]) -> str:
    """Why ``losses`` do not follow ``reference``, step by step over the same data; "" where they do.

    The mean loss of the last third may lie above the reference's by a third of the progress that the
    reference made, by 2% of the loss or by four standard errors of the paired differences, whichever is most.
    """
    count = min(len(losses), len(reference))
    if count < STEP_COUNT_MIN:
        return ""
    for step, loss in enumerate(losses[:count], start=1):
        if not math.isfinite(loss):
            return f"the loss became {loss} at step {step}"
    gap, allowed, level = allowance(losses, reference)
    if gap <= allowed:
        return ""
    return f"after {count} steps the loss is {level + gap:.4g}, with fp32 it is {level:.4g}"


def allowance(losses: Sequence[float], reference: Sequence[float]) -> tuple[float, float, float]:
    """By how much the mean of the last third lies above the reference's, how much it may, and the latter."""
    count = min(len(losses), len(reference))
    tail = slice(count - math.ceil(count * _TAIL_FRACTION), count)
    differences = [one - other for one, other in zip(losses[tail], reference[tail], strict=True)]
    level = statistics.fmean(reference[tail])
    progress = statistics.fmean(reference[:_HEAD_COUNT]) - level
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    allowed = max(PROGRESS_LOST_MAX * progress, LEVEL_FRACTION * abs(level), SIGMAS * error)
    return statistics.fmean(differences), allowed, level


def guards(outcomes: Iterable[Outcome]) -> tuple[Guard, ...]:
    """Every comparison among the outcomes, the last of each configuration."""
    last = {one.config: one for one in outcomes if one.purpose is Purpose.GUARD}
    found = []
    for config, outcome in last.items():
        reference = last.get(reference_of(config))
        if config == reference_of(config) or not isinstance(reference, Measurement):
            continue
        if isinstance(outcome, Failure) and outcome.kind is not FailureKind.DIVERGED:
            continue
        is_finite = isinstance(outcome, Measurement)
        losses = outcome.losses if isinstance(outcome, Measurement) else ()
        found.append(
            Guard(
                config=config,
                losses=losses,
                reference=reference.config,
                reference_losses=reference.losses,
                rejection=judge(losses, reference.losses) if is_finite else _reason(outcome),
            )
        )
    return tuple(found)


def rejected_arithmetic(outcomes: Iterable[Outcome]) -> frozenset[Arithmetic]:
    """What was seen not to train."""
    return frozenset(arithmetic_of(one.config) for one in guards(outcomes) if one.rejection)


def next_guard(
    winner: TrialConfig, outcomes: Sequence[Outcome], fits: Callable[[TrialConfig], bool]
) -> TrialConfig | None:
    """The guard's next trial: the winner's reference, then the winner; None where there is nothing to ask.

    Where the reference would not fit, both run with smaller micro batches, which are the same samples.

    Args:
        winner: the cheapest configuration so far.
        outcomes: of all trials so far.
        fits: whether a configuration is safe to try.
    """
    tried = [one for one in outcomes if one.purpose is Purpose.GUARD]
    judged = {
        (one.config.gpu, arithmetic_of(one.config)) for one in tried if one.config != reference_of(one.config)
    }
    if reference_of(winner) == winner or (winner.gpu, arithmetic_of(winner)) in judged:
        return None
    sizes = [winner]
    while sizes[-1].micro_batch_size % 2 == 0:
        last = sizes[-1]
        half = replace(last, micro_batch_size=last.micro_batch_size // 2, accumulation=2 * last.accumulation)
        sizes.append(half)
    references = {one.config: one for one in tried if one.config == reference_of(one.config)}
    for one in sizes:
        if isinstance(references.get(reference_of(one)), Measurement):
            return one
    if any(reference_of(one) in references for one in sizes):
        return None
    return next((reference_of(one) for one in sizes if fits(reference_of(one))), None)


def _reason(outcome: Outcome) -> str:
    assert isinstance(outcome, Failure)
    return outcome.reason
