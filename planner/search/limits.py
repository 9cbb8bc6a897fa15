"""Budget and deadline in the search: what a trial may save counts only as far as its run keeps them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.estimate import Estimate
from planner.estimate.interval.lognormal import sigmas
from planner.search.acquisition import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRun:
    """The target run with a configuration, on the best offer that carries it."""

    cost: Estimate  # dollars, the waiting counted, or device hours
    limit: float = math.inf  # log-spreads above its median at which it breaks the budget or the deadline

    def keeps_limits(self, confidence: float) -> bool:
        """Whether it does at the high end of its interval."""
        return self.limit >= sigmas(confidence)

    def order(self, confidence: float) -> tuple[float, float]:
        """The least is best: what keeps the limits by its cost, before it what is the likeliest to."""
        return max(0.0, sigmas(confidence) - self.limit), self.cost.expected


def weighed(
    candidates: Sequence[Candidate], best: TargetRun | None, confidence: float
) -> tuple[Sequence[Candidate], float | None]:
    """The candidates, and the cost that a trial's saving is counted from; None where nothing was measured.

    That is the cost of the best measured run. While none keeps the limits but an untried one may, it is what
    the dearest of these may cost, so that a run within the limits is worth most. Where none can keep them
    they are left out: what is cheap here says what is cheap on other devices.
    """
    if best is None or best.keeps_limits(confidence):
        return candidates, None if best is None else best.cost.expected
    hopeful = [
        one.run_cost.high
        for one in candidates
        if one.run_cost is not None and one.limit > -sigmas(confidence)
    ]
    if hopeful:
        return candidates, max(hopeful)
    return [replace(one, limit=math.inf) for one in candidates], best.cost.expected
