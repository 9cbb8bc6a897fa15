"""When spot stops paying against the same instances on demand."""

from __future__ import annotations

from catalogs.offers import Offer
from planner.cost import billed_s
from planner.spot.interval import best_interval_s
from planner.spot.job import SpotJob
from planner.spot.segments import means

MAX_EXPONENT = 30.0
"""Interruptions expected in one interval or restart beyond which a run makes no headway worth pricing."""


def makes_headway(job: SpotJob, interval_s: float) -> bool:
    """Whether the run ends within a time that can be computed at all."""
    longest_s = max(interval_s + job.saving.stall_s, job.restart.total_s)
    return job.interruptions_per_s * longest_s < MAX_EXPONENT


def on_demand_held_s(job: SpotJob) -> float:
    """Holding time of the same run on demand: one start, the work, one checkpoint at the end."""
    return job.restart.first_s + job.work_s + job.saving.stall_s


def break_even_discount(
    job: SpotJob, interval_s: float, on_demand: Offer | None, rounding_s: float = 0.0
) -> float | None:
    """The discount against on-demand from which on spot is cheaper: 1 - (hours on demand / hours on spot)."""
    if on_demand is None:
        return None
    spot_s = means(job, interval_s).held_s + rounding_s
    return 1 - billed_s(on_demand, on_demand_held_s(job)) / spot_s


def break_even_rate_per_s(job: SpotJob, discount_fraction: float) -> float:
    """The interruption rate up to which spot at this discount is cheaper; what to ask where none is known.

    Infinite-looking answers end at one interruption every ten seconds.
    """
    low, high = 0.0, 0.1
    for _ in range(60):
        middle = (low + high) / 2
        if _pays_at(job, middle, discount_fraction):
            low = middle
        else:
            high = middle
    return low


def _pays_at(job: SpotJob, rate_per_s: float, discount_fraction: float) -> bool:
    at_rate = SpotJob(
        work_s=job.work_s,
        restart=job.restart,
        saving=job.saving,
        interruptions_per_s=rate_per_s,
        notice_saved_fraction=job.notice_saved_fraction,
    )
    interval_s = best_interval_s(at_rate)
    if not makes_headway(at_rate, interval_s):
        return False
    return means(at_rate, interval_s).held_s * (1 - discount_fraction) < on_demand_held_s(job)
