"""What a run on spot is expected to cost and take, with its spread, and when spot stops paying."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalogs.offers import Offer
from planner.cost.hours import SECONDS_PER_HOUR, hourly_usd
from planner.cost.spot.break_even import break_even_discount, makes_headway
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.job import WAIT_FACTOR, SaveCost, SpotJob
from planner.cost.spot.segments import SMALL_EXPONENT, Means, means
from planner.cost.spot.spread import BIN_COUNT, Spread, quantile_s, spread_of
from planner.estimate.values import Basis, Estimate

PERCENTILE_WEIGHTS = (0.185, 0.63, 0.185)
"""Of the 5th, 50th and 95th percentile, which stand for a distribution: the extended Pearson-Tukey
approximation of Keefer and Bodily, Management Science 29(5), 1983. Low and high ends are the outer ones."""

Cases = tuple[tuple[float, SpotJob], ...]
"""Runs with their weights, which add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotTimes:
    """The times of a run on spot, whatever the price. Seconds are means unless the name says otherwise.

    ``held_s`` and ``wall_s`` have the quantiles that were asked for as low and high, ``held_s_p10`` and
    ``held_s_p90`` are what one run in ten stays below or exceeds. They cover the chance of interruptions and
    the interval of the work, ``wall_s`` and ``miss_probability`` also that the mean wait is known only to a
    factor (`WAIT_FACTOR`). They do not cover a market whose interruption rate changes.
    """

    interval_s: float  # between checkpoints
    means: Means  # at the expected work
    held_s: Estimate
    held_s_p10: float
    held_s_p90: float
    wall_s: Estimate
    miss_probability: float | None  # None without a deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOutcome:
    """A run on spot at a price: ``cost_usd`` is the rent of the instances and nothing else."""

    times: SpotTimes
    rounding_s: float  # mean, that started billing blocks add over all starts
    cost_usd: Estimate  # quantiles as of ``times.held_s``
    cost_usd_p10: float
    cost_usd_p90: float
    break_even_discount_fraction: float | None  # None without an on-demand price
    discount_fraction: float | None

    @property
    def pays(self) -> bool | None:
        """Whether spot is cheaper than on-demand on average; None without an on-demand price."""
        if self.break_even_discount_fraction is None or self.discount_fraction is None:
            return None
        return self.discount_fraction > self.break_even_discount_fraction


def spot_times(
    job: SpotJob,
    work_s: Estimate,
    *,
    deadline_s: float | None = None,
    interval_s: float | None = None,
    tail_fraction: float = 0.05,
    bin_count: int = BIN_COUNT,
) -> SpotTimes | None:
    """How long ``job`` holds its instances and takes, with the work of ``work_s``.

    Args:
        job: its own work is not looked at.
        work_s: of useful steps; its ends are taken as 5th and 95th percentile.
        deadline_s: from the first request to the end.
        interval_s: between checkpoints; the best one where None.
        tail_fraction: beyond each end of the intervals.
        bin_count: of the distributions.

    None when the run makes no headway: interrupted again and again before it gets through one interval.
    """
    job = job.with_work(work_s.expected)
    interval_s = interval_s or best_interval_s(job)
    if not makes_headway(job, interval_s):
        return None
    mean = means(job, interval_s)
    cases = work_cases(job, work_s)
    held = spread_of([(weight, replace(one, wait_s=0.0)) for weight, one in cases], interval_s, bin_count)
    wall = spread_of(with_waits(cases), interval_s, bin_count)
    return SpotTimes(
        interval_s=interval_s,
        means=mean,
        held_s=_spread_estimate(held, mean.held_s, tail_fraction, work_s.basis),
        held_s_p10=quantile_s(held, 0.1),
        held_s_p90=quantile_s(held, 0.9),
        wall_s=_spread_estimate(wall, mean.wall_s, tail_fraction, work_s.basis),
        miss_probability=None if deadline_s is None else max(0.0, 1 - wall.at_most(deadline_s)),
    )


def mean_times(job: SpotJob, work_s: Estimate) -> SpotTimes | None:
    """The means of `spot_times`, with those at the ends of the work as low and high: far quicker."""
    interval_s = best_interval_s(job.with_work(work_s.expected))
    if not makes_headway(job, interval_s):
        return None
    low, mean, high = (
        means(job.with_work(length_s), min(interval_s, length_s))
        for length_s in (work_s.low, work_s.expected, work_s.high)
    )
    return SpotTimes(
        interval_s=interval_s,
        means=mean,
        held_s=Estimate(low=low.held_s, expected=mean.held_s, high=high.held_s, basis=work_s.basis),
        held_s_p10=low.held_s,
        held_s_p90=high.held_s,
        wall_s=Estimate(low=low.wall_s, expected=mean.wall_s, high=high.wall_s, basis=work_s.basis),
        miss_probability=None,
    )


def spot_outcome(
    job: SpotJob, times: SpotTimes, offer: Offer, instance_count: int, on_demand: Offer | None = None
) -> SpotOutcome:
    """What ``job`` with these ``times`` costs on ``instance_count`` instances of ``offer``.

    ``on_demand`` is the same instance on demand, for the comparison.
    """
    usd_per_s = hourly_usd(offer, instance_count) / SECONDS_PER_HOUR
    rounding_s = rounding_per_holding_s(job, offer) * (times.means.interruption_count + 1)
    return SpotOutcome(
        times=times,
        rounding_s=rounding_s,
        cost_usd=_shifted(times.held_s, rounding_s).scaled(usd_per_s),
        cost_usd_p10=(times.held_s_p10 + rounding_s) * usd_per_s,
        cost_usd_p90=(times.held_s_p90 + rounding_s) * usd_per_s,
        break_even_discount_fraction=break_even_discount(job, times.interval_s, on_demand, rounding_s),
        discount_fraction=_discount(offer, on_demand),
    )


def best_saving(job: SpotJob, options: Sequence[SaveCost]) -> SaveCost:
    """Of several ways to save, the one with which ``job`` is held the shortest; each at its best interval."""

    def held_s(saving: SaveCost) -> float:
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
    """The run at the low end, the middle and the high end of its work, weighted; one case where they are one.

    The middle is where the cases have the work's mean. For a log-normal that is its median, within 4% up to
    a log-spread of 1.
    """
    if work.low == work.high:
        return ((1.0, job),)
    low, middle, high = PERCENTILE_WEIGHTS
    rest_s = (work.expected - low * work.low - high * work.high) / middle
    points = (work.low, min(max(rest_s, work.low), work.high), work.high)
    return tuple((weight, job.with_work(one)) for weight, one in zip(PERCENTILE_WEIGHTS, points, strict=True))


def with_waits(cases: Cases) -> Cases:
    """Each case with the waits that the market may turn out to have."""
    return tuple(
        (weight * wait_weight, replace(one, wait_s=wait_s))
        for weight, one in cases
        for wait_weight, wait_s in wait_cases(one.wait_s)
    )


def wait_cases(wait_s: float) -> tuple[tuple[float, float], ...]:
    """Mean waits to reckon with, weighted as the 5th, 50th and 95th percentile."""
    if wait_s == 0:
        return ((1.0, 0.0),)
    ends = (wait_s / WAIT_FACTOR, wait_s, wait_s * WAIT_FACTOR)
    return tuple(zip(PERCENTILE_WEIGHTS, ends, strict=True))


def _spread_estimate(spread: Spread, mean_s: float, tail: float, basis: Basis) -> Estimate:
    low_s, high_s = quantile_s(spread, tail), quantile_s(spread, 1 - tail)
    return Estimate(low=min(low_s, mean_s), expected=mean_s, high=max(high_s, mean_s), basis=basis)


def _discount(offer: Offer, on_demand: Offer | None) -> float | None:
    return None if on_demand is None else 1 - offer.price_usd_per_hour / on_demand.price_usd_per_hour


def _shifted(estimate: Estimate, by: float) -> Estimate:
    return Estimate(
        low=estimate.low + by,
        expected=estimate.expected + by,
        high=estimate.high + by,
        basis=estimate.basis,
    )
