"""What cannot be told apart, and which of it is simpler."""

from __future__ import annotations

import math

from planner.estimate.values import Basis, Estimate
from planner.modes.chosen import plainness
from trials.api import TrialConfig

NEGLIGIBLE_FRACTION = 0.02
"""Two runs of a step on two machines of one type differ by about this; smaller differences decide nothing."""


def is_same_within(first: Estimate, second: Estimate) -> bool:
    """Whether two positive estimates with errors of their own cannot be told apart.

    The interval of their log ratio, whose middle is that of their medians and whose width adds theirs in
    quadrature, holds zero.
    """
    gap = abs(math.log(first.low * first.high / (second.low * second.high)))  # twice, as the widths are
    return gap <= math.hypot(math.log(first.high / first.low), math.log(second.high / second.low))


def is_tied_here(one: Estimate, fastest: Estimate) -> bool:
    """Measured times tie within their intervals; predictions for one place share their error."""
    if one.basis is Basis.MEASURED and fastest.basis is Basis.MEASURED:
        return is_same_within(one, fastest)
    return one.expected <= fastest.expected * (1 + NEGLIGIBLE_FRACTION)


def preference(config: TrialConfig, step_time_s: Estimate) -> tuple[int, bool, float]:
    """The least of those that tie is taken: the simplest, one that was measured in full, the surest."""
    return plainness(config), step_time_s.basis is not Basis.MEASURED, step_time_s.high
