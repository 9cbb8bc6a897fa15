"""On-demand, spot, and spot that falls back to on-demand, side by side for one run.

On-demand and spot are computed in closed form, the fall-back is played through many times from fixed seeds.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

from catalogs.offers import Offer
from planner.cost.hours import SECONDS_PER_HOUR, billed_s, hourly_usd
from planner.cost.spot.break_even import makes_headway, on_demand_held_s
from planner.cost.spot.interruptions import PoissonInterruptions
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.job import SpotJob
from planner.cost.spot.outcome import Cases, spot_outcome, spot_times, wait_cases, work_cases
from planner.cost.spot.policy import Policy, PolicyOutcome
from planner.cost.spot.simulation import SimulatedRun, run_with_fallback
from planner.estimate.values import Estimate

PLAY_COUNT = 400  # runs that the fall-back is played through
SLACK_FRACTION = 1 / 16
"""Of the time to spare, the most that one checkpoint interval takes up where a run may fall back."""

MIN_SAVES_APART = 20
"""Stalls that an interval shortened for the deadline is still long: saving then costs 5% at most."""


def compare_policies(
    job: SpotJob,
    work_s: Estimate,
    instance_count: int,
    *,
    on_demand: Offer | None,
    spot: Offer | None,
    deadline_s: float | None = None,
    on_demand_interval_s: float | None = None,
    seed: int = 0,
) -> tuple[PolicyOutcome, ...]:
    """All policies that the offers and the deadline allow, cheapest first.

    ``on_demand_interval_s`` lies between two checkpoints on demand; None saves once, at the end. Falling back
    needs both offers and a deadline. Spot is left out where the run makes no headway on it.
    """
    job = job.with_work(work_s.expected)
    found: list[PolicyOutcome] = []
    if on_demand is not None:
        found.append(_on_demand(job, work_s, on_demand, instance_count, (deadline_s, on_demand_interval_s)))
    if spot is not None and (alone := _spot(job, work_s, spot, instance_count, deadline_s)):
        found.append(alone)
    if on_demand is not None and spot is not None and deadline_s is not None:
        interval_s = fallback_interval_s(job, deadline_s)
        if makes_headway(job, interval_s):
            found.append(
                _fallback(job, work_s, (spot, on_demand), instance_count, (deadline_s, interval_s), seed)
            )
    return tuple(sorted(found, key=lambda outcome: outcome.cost_usd.expected))


def fallback_interval_s(job: SpotJob, deadline_s: float) -> float:
    """The checkpoint interval for falling back: the best one, or a small part of the slack if that is less.

    A changeover can lose a whole interval, and twice that is kept in hand against the deadline: a long
    interval would send a run with little slack to on-demand early.
    """
    slack_s = max(0.0, deadline_s - on_demand_held_s(job))
    shortest_s = max(job.saving.durable_s, MIN_SAVES_APART * job.saving.stall_s, 1.0)
    return min(best_interval_s(job), max(slack_s * SLACK_FRACTION, shortest_s))


def _on_demand(
    job: SpotJob, work_s: Estimate, offer: Offer, count: int, times_s: tuple[float | None, float | None]
) -> PolicyOutcome:
    """Nothing is left to chance but the work; its ends are taken as 5th and 95th percentile."""
    deadline_s, interval_s = times_s
    wall_s = Estimate(
        low=on_demand_held_s(job.with_work(work_s.low), interval_s),
        expected=on_demand_held_s(job, interval_s),
        high=on_demand_held_s(job.with_work(work_s.high), interval_s),
        basis=work_s.basis,
    )
    usd_per_s = hourly_usd(offer, count) / SECONDS_PER_HOUR
    late = sum(
        weight
        for weight, one in work_cases(job, work_s)
        if deadline_s is not None and on_demand_held_s(one, interval_s) > deadline_s
    )
    return PolicyOutcome(
        policy=Policy.ON_DEMAND,
        cost_usd=Estimate(
            low=billed_s(offer, wall_s.low) * usd_per_s,
            expected=billed_s(offer, wall_s.expected) * usd_per_s,
            high=billed_s(offer, wall_s.high) * usd_per_s,
            basis=work_s.basis,
        ),
        wall_s=wall_s,
        miss_probability=None if deadline_s is None else late,
        on_demand_fraction=1.0,
        checkpoint_interval_s=min(interval_s or job.work_s, job.work_s),
    )


def _spot(
    job: SpotJob, work_s: Estimate, offer: Offer, count: int, deadline_s: float | None
) -> PolicyOutcome | None:
    times = spot_times(job, work_s, deadline_s=deadline_s)
    if times is None:
        return None
    outcome = spot_outcome(job, times, offer, count)
    mean_usd = outcome.cost_usd.expected
    return PolicyOutcome(
        policy=Policy.SPOT,
        cost_usd=Estimate(
            low=min(outcome.cost_usd_p10, mean_usd),
            expected=mean_usd,
            high=max(outcome.cost_usd_p90, mean_usd),
            basis=work_s.basis,
        ),
        wall_s=times.wall_s,
        miss_probability=times.miss_probability,
        on_demand_fraction=0.0,
        checkpoint_interval_s=times.interval_s,
    )


def _fallback(
    job: SpotJob,
    work_s: Estimate,
    offers: tuple[Offer, Offer],
    count: int,
    times_s: tuple[float, float],
    seed: int,
) -> PolicyOutcome:
    spot, on_demand = offers
    deadline_s, interval_s = times_s

    def played(cases: Cases) -> list[SimulatedRun]:
        return [
            _play(replace(one, wait_s=wait_s), min(interval_s, one.work_s), deadline_s, f"{seed} {number}")
            for work_weight, one in cases
            for wait_weight, wait_s in wait_cases(job.wait_s)
            for number in range(max(1, round(work_weight * wait_weight * PLAY_COUNT)))
        ]

    runs = played(work_cases(job, work_s))
    at_expected = runs if work_s.low == work_s.high else played(((1.0, job),))
    costs_usd = [_rent_usd(run, spot, on_demand, count) for run in runs]
    mean_usd = statistics.fmean(_rent_usd(run, spot, on_demand, count) for run in at_expected)
    walls_s = [run.wall_s for run in runs]
    mean_s = statistics.fmean(run.wall_s for run in at_expected)
    on_demand_s = sum(sum(run.on_demand_held_s) for run in runs)
    held_s = on_demand_s + sum(sum(run.spot_held_s) for run in runs)
    return PolicyOutcome(
        policy=Policy.SPOT_WITH_FALLBACK,
        cost_usd=_estimate(costs_usd, mean_usd, 0.1, work_s),
        wall_s=_estimate(walls_s, mean_s, 0.05, work_s),
        miss_probability=sum(wall_s > deadline_s for wall_s in walls_s) / len(walls_s),
        on_demand_fraction=on_demand_s / held_s,
        checkpoint_interval_s=interval_s,
    )


def _play(job: SpotJob, interval_s: float, deadline_s: float, seed: str) -> SimulatedRun:
    chance = random.Random(seed)  # noqa: S311 - a simulation, not a secret
    market = PoissonInterruptions(job.interruptions_per_s, job.wait_s, chance)
    return run_with_fallback(job, interval_s, market, deadline_s, chance)


def _rent_usd(run: SimulatedRun, spot: Offer, on_demand: Offer, count: int) -> float:
    spot_s = sum(billed_s(spot, held_s) for held_s in run.spot_held_s)
    on_demand_s = sum(billed_s(on_demand, held_s) for held_s in run.on_demand_held_s)
    hours_usd = spot_s * hourly_usd(spot, count) + on_demand_s * hourly_usd(on_demand, count)
    return hours_usd / SECONDS_PER_HOUR


def _estimate(values: list[float], mean: float, tail: float, work_s: Estimate) -> Estimate:
    parts = statistics.quantiles(values, n=round(1 / tail))
    return Estimate(low=min(parts[0], mean), expected=mean, high=max(parts[-1], mean), basis=work_s.basis)
