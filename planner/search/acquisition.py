"""Which trial next, and whether it pays: expected saving on the target run against the price of the trial.

The analytic model of the estimator, refitted after every trial, gives each candidate's cost of the target
run as a lognormal between its low and its high. Its expected improvement over the best measured configuration
(Mockus 1978; for the lognormal the integral has a closed form) is in dollars, and so is what the trial itself
costs; a run that breaks the budget or the deadline improves nothing. A trial pays when it is expected to save
more than it costs; of those that pay, the one with the largest saving per dollar comes first (Snoek et al.
2012).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planner.estimate import Basis, Estimate
from planner.estimate.interval.lognormal import NORMAL, expected_below, log_spread
from trials.api import TrialConfig

GAIN_FLOOR_FRACTION = 0.005  # below half a percent of the run, a saving is within the noise of measuring it
UNNOTICED_COUNT = 20  # trials that together cost that little: among them the price orders nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configuration that could be tried now, with what is believed of it."""

    config: TrialConfig
    run_cost: Estimate | None  # of the target run: dollars, or device hours where nothing has a price
    trial_cost_usd: float | None  # None where the device has no price
    trial_s: float = 0.0  # how long the trial is expected to take
    memory: Estimate | None  # peak of a worker, in bytes
    memory_bytes: int  # that the device has
    limit: float = math.inf  # log-spreads above its median at which the run breaks the budget or the deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a trial is expected to save on the target run, and its price, in the unit of the run's cost."""

    candidate: Candidate
    saving: float
    price: float  # 0 on a device without one
    floor: float  # a saving below it is within the noise of measuring the run

    @property
    def pays(self) -> bool:
        """Whether it is expected to save more than it costs, and more than noise."""
        return self.saving > max(self.price, self.floor)

    @property
    def per_dollar(self) -> float:
        """Saving over price; to it comes what no run would notice, lest the quickest trial come first."""
        return self.saving / (self.price + self.floor / UNNOTICED_COUNT)


def fit_probability(candidate: Candidate, confidence: float) -> float:
    """Chance that the configuration fits into the device's memory; 1 where nothing is known."""
    if candidate.memory is None:
        return 1.0
    spread = _spread(candidate.memory, confidence)
    distance = math.log(candidate.memory_bytes / candidate.memory.expected)
    return NORMAL.cdf(distance / spread) if spread > 0 else float(distance >= 0)


def expected_improvement(
    best: float, run_cost: Estimate, confidence: float, limit: float = math.inf
) -> float:
    """E[max(best - cost, 0)] for a lognormal cost, in the unit of ``best``; 0 beyond ``limit`` spreads."""
    spread = _spread(run_cost, confidence)
    if spread <= 0:
        return max(best - run_cost.expected, 0.0) if limit >= 0 else 0.0
    return expected_below(run_cost.expected, spread, best, limit)


def most_worth(candidates: Sequence[Candidate], best: float, confidence: float) -> Worth | None:
    """The trial with the largest expected saving per dollar, whether it pays or not; None without estimates.

    Args:
        candidates: what could be tried.
        best: cost of the target run as it would be without the trial.
        confidence: of the candidates' intervals.
    """
    worths = [
        Worth(
            candidate=one,
            saving=_expected_saving(one, one.run_cost, best, confidence),
            price=one.trial_cost_usd or 0.0,
            floor=GAIN_FLOOR_FRACTION * best,
        )
        for one in candidates
        if one.run_cost is not None
    ]
    return max(worths, key=lambda one: (one.pays, one.per_dollar, one.saving), default=None)


def expected_best(in_flight: Sequence[Candidate], best: float, confidence: float) -> float:
    """Cost of the target run that is expected once trials under way have ended, in the unit of ``best``.

    Savings of further trials are counted from it, so that none is paid for twice. What a trial adds to those
    under way is E[max(min(best, theirs) - its, 0)]; with the expected min(best, theirs) in its place that is
    never more where the two are independent (Jensen), and less is due where they share an error. It is the
    fantasy of Ginsbourger et al. 2010 ("Kriging is well-suited to parallelize optimization"), but of the best
    and not of each outcome: the mean of a trial would discount nothing where it is not below ``best``.
    """
    for one in in_flight:
        if one.run_cost is not None:
            best -= _expected_saving(one, one.run_cost, best, confidence)
    return best


def worth_of_searching(candidates: Sequence[Candidate], best: float) -> Worth | None:
    """After the first trial: the most that searching on could save, against the price of the cheapest trial.

    From ``best`` down to the lowest end of any candidate's interval. Not before the first trial: a trace sees
    no data loading, and what it takes for a tiny run may be a long one. None where nothing is priced.
    """
    lows = [one.run_cost.low for one in candidates if one.run_cost is not None]
    priced = [one for one in candidates if one.trial_cost_usd is not None]
    if not lows or not priced:
        return None
    cheapest = min(priced, key=lambda one: one.trial_cost_usd or 0.0)
    return Worth(
        candidate=cheapest, saving=max(best - min(lows), 0.0), price=cheapest.trial_cost_usd or 0.0, floor=0.0
    )


def _expected_saving(candidate: Candidate, run_cost: Estimate, best: float, confidence: float) -> float:
    improvement = expected_improvement(best, run_cost, confidence, candidate.limit)
    return improvement * fit_probability(candidate, confidence)


def _spread(estimate: Estimate, confidence: float) -> float:
    """Standard deviation of the logarithm; of what was not measured never nothing."""
    spread = log_spread(estimate, confidence)
    return max(spread, 0.02) if estimate.basis is not Basis.MEASURED else spread
