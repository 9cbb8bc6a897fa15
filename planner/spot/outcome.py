"""What a run on spot is expected to cost and take, with its spread, and when spot stops paying."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalogs.offers import Offer
from planner.cost import SECONDS_PER_HOUR, CostTerm, hourly_usd
from planner.estimate.values import Basis, Estimate
from planner.spot.break_even import break_even_discount, makes_headway
from planner.spot.interval import best_interval_s
from planner.spot.job import WAIT_FACTOR, Saving, SpotJob
from planner.spot.segments import SMALL_EXPONENT, Means, means
from planner.spot.spread import Spread, at_most, held_spread, quantile_s, wall_spread

PERCENTILE_WEIGHTS = (0.185, 0.63, 0.185)
"""Of the 5th, 50th and 95th percentile, which stand for a distribution: the extended Pearson-Tukey
approximation of Keefer and Bodily, Management Science 29(5), 1983. Low and high ends are the outer ones."""

Cases = tuple[tuple[float, SpotJob], ...]
"""Runs with their weights, which add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOutcome:
    """A run on spot. Seconds and dollars are means unless the name says otherwise.

    ``held_s`` and ``cost_usd``, the rent of the instances and nothing else, have the 10th and 90th percentile
    as low and high, ``wall_s`` the 5th and 95th. They cover the chance of interruptions and the interval of
    the work, ``wall_s`` and ``miss_probability`` also that the mean wait is known only to a factor
    (`WAIT_FACTOR`). They do not cover a market whose interruption rate changes.
    """

    interval_s: float
    means: Means  # at the expected work
    held_s: Estimate
    wall_s: Estimate
    cost_usd: Estimate
    miss_probability: float | None  # None without a deadline
    break_even_discount_fraction: float | None  # None without an on-demand price
    discount_fraction: float | None
    terms: tuple[CostTerm, ...]  # of the rent; they add up to cost_usd

    @property
    def pays(self) -> bool | None:
        """Whether spot is cheaper than on-demand on average; None without an on-demand price."""
        if self.break_even_discount_fraction is None or self.discount_fraction is None:
            return None
        return self.discount_fraction > self.break_even_discount_fraction


def spot_outcome(
    job: SpotJob,
    offer: Offer,
    instance_count: int,
    *,
    work_s: Estimate | None = None,
    on_demand: Offer | None = None,
    deadline_s: float | None = None,
    interval_s: float | None = None,
) -> SpotOutcome | None:
    """What ``job`` costs and takes on ``instance_count`` instances of ``offer``.

    Args:
        job: its work is used where ``work_s`` is None.
        offer: the spot instance.
        instance_count: of them.
        work_s: with its interval; otherwise the work is taken as certain.
        on_demand: the same instance on demand, for the comparison.
        deadline_s: from the first request to the end.
        interval_s: between checkpoints; the best one where None.

    None when the run makes no headway: interrupted again and again before it gets through one interval.
    """
    work = work_s or _certain(job.work_s)
    job = job.with_work(work.expected)
    interval_s = interval_s or best_interval_s(job)
    if not makes_headway(job, interval_s):
        return None
    mean = means(job, interval_s)
    cases = work_cases(job, work)
    held = tuple((weight, held_spread(one, min(interval_s, one.work_s))) for weight, one in cases)
    wall = wall_spreads(cases, interval_s)
    held_mean_s = _mean(cases, interval_s, is_wall=False)
    usd_per_s = hourly_usd(offer, instance_count) / SECONDS_PER_HOUR
    rounding_s = rounding_per_holding_s(job, offer) * (mean.interruption_count + 1)
    held_s = _spread_estimate(held, held_mean_s, 0.1, work.basis)
    cost_usd = _shifted(held_s, rounding_s).scaled(usd_per_s)
    return SpotOutcome(
        interval_s=interval_s,
        means=mean,
        held_s=held_s,
        wall_s=_spread_estimate(wall, _mean(cases, interval_s, is_wall=True), 0.05, work.basis),
        cost_usd=cost_usd,
        miss_probability=None if deadline_s is None else max(0.0, 1 - at_most(wall, deadline_s)),
        break_even_discount_fraction=break_even_discount(job, interval_s, on_demand, rounding_s),
        discount_fraction=_discount(offer, on_demand),
        terms=_terms(mean, usd_per_s, cost_usd),
    )


def best_saving(job: SpotJob, options: Sequence[Saving]) -> Saving:
    """Of several ways to save, the one with which ``job`` is held the shortest; each at its best interval."""

    def held_s(saving: Saving) -> float:
        one = replace(job, saving=saving)
        interval_s = best_interval_s(one)
        return means(one, interval_s).held_s if makes_headway(one, interval_s) else math.inf

    return min(options, key=held_s)


def rounding_per_holding_s(job: SpotJob, offer: Offer) -> float:
    """Mean seconds that the billing increment adds to one holding of exponential length."""
    increment_s = float(offer.billing_increment_s)
    exponent = job.interruptions_per_s * increment_s
    if exponent < SMALL_EXPONENT:
        return increment_s / 2
    return -increment_s / math.expm1(-exponent) - 1 / job.interruptions_per_s


def work_cases(job: SpotJob, work: Estimate) -> Cases:
    """The run at the low, expected and high end of its work, weighted; one case where they are the same."""
    if work.low == work.high:
        return ((1.0, job),)
    ends = (work.low, work.expected, work.high)
    return tuple((weight, job.with_work(one)) for weight, one in zip(PERCENTILE_WEIGHTS, ends, strict=True))


def _mean(cases: Cases, interval_s: float, *, is_wall: bool) -> float:
    found = [(weight, means(one, min(interval_s, one.work_s))) for weight, one in cases]
    return math.fsum(weight * (one.wall_s if is_wall else one.held_s) for weight, one in found)


def wall_spreads(cases: Cases, interval_s: float) -> tuple[tuple[float, Spread], ...]:
    """Of the wall time, each case with the waits that the market may turn out to have."""
    return tuple(
        (case_weight * wait_weight, wall_spread(replace(one, wait_s=wait_s), min(interval_s, one.work_s)))
        for case_weight, one in cases
        for wait_weight, wait_s in wait_cases(one.wait_s)
    )


def wait_cases(wait_s: float) -> tuple[tuple[float, float], ...]:
    """Mean waits to reckon with, weighted as the 5th, 50th and 95th percentile."""
    if wait_s == 0:
        return ((1.0, 0.0),)
    ends = (wait_s / WAIT_FACTOR, wait_s, wait_s * WAIT_FACTOR)
    return tuple(zip(PERCENTILE_WEIGHTS, ends, strict=True))


def _spread_estimate(
    spreads: tuple[tuple[float, Spread], ...], mean_s: float, tail: float, basis: Basis
) -> Estimate:
    low_s, high_s = quantile_s(spreads, tail), quantile_s(spreads, 1 - tail)
    return Estimate(low=min(low_s, mean_s), expected=mean_s, high=max(high_s, mean_s), basis=basis)


def _terms(mean: Means, usd_per_s: float, cost: Estimate) -> tuple[CostTerm, ...]:
    """The rent by what the instances do; the spread is the last term's, so that bounds add up as well."""
    parts = (
        ("training", mean.work_s, "steps x step time x price x instances"),
        ("checkpoints", mean.saving_s, "number of saves x stall of one x price x instances"),
        ("starting", mean.starting_s, "first start and restarts, retries included, x price x instances"),
    )
    terms = [
        CostTerm(
            name=name,
            low_usd=seconds * usd_per_s,
            expected_usd=seconds * usd_per_s,
            high_usd=seconds * usd_per_s,
            formula=formula,
        )
        for name, seconds, formula in parts
    ]
    known_usd = math.fsum(one.expected_usd for one in terms)
    rest = "work lost by interruptions (Daly 2006) and started billing blocks"
    terms.append(
        CostTerm(
            name="interruptions",
            low_usd=cost.low - known_usd,
            expected_usd=cost.expected - known_usd,
            high_usd=cost.high - known_usd,
            formula=f"{rest}, x price x instances; low and high: 10th and 90th percentile of the rent",
        )
    )
    return tuple(terms)


def _discount(offer: Offer, on_demand: Offer | None) -> float | None:
    return None if on_demand is None else 1 - offer.price_usd_per_hour / on_demand.price_usd_per_hour


def _shifted(estimate: Estimate, by: float) -> Estimate:
    return Estimate(
        low=estimate.low + by,
        expected=estimate.expected + by,
        high=estimate.high + by,
        basis=estimate.basis,
    )


def _certain(value: float) -> Estimate:
    return Estimate(low=value, expected=value, high=value, basis=Basis.MEASURED)
