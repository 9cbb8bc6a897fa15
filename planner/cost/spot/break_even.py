"""When spot stops paying against the same instances on demand."""

from __future__ import annotations

import math
from dataclasses import replace

from catalogs.offers import Offer
from planner.cost.hours import billed_s
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.job import SpotJob
from planner.cost.spot.segments import means

MAX_EXPONENT = 30.0
"""Interruptions expected in one interval or restart beyond which a run makes no headway worth pricing."""

_BISECTIONS = 30
_DECADES = 1e4  # the first step down from the highest rate while none is known to pay


def makes_headway(job: SpotJob, interval_s: float) -> bool:
    """Whether the run ends within a time that can be computed at all."""
    longest_s = max(interval_s + job.saving.stall_s, job.restart.total_s)
    return job.interruptions_per_s * longest_s < MAX_EXPONENT


def on_demand_held_s(job: SpotJob, interval_s: float | None = None) -> float:
    """Holding time of the same run on demand: one start, the work, a save each ``interval_s`` and last."""
    saves = 1 if interval_s is None else math.ceil(job.work_s / interval_s - 1e-9)
    return job.restart.first_s + job.work_s + saves * job.saving.stall_s


def break_even_discount(
    job: SpotJob, interval_s: float, on_demand: Offer | None, rounding_s: float = 0.0
) -> float | None:
    """The discount against on-demand from which on spot is cheaper: 1 - (hours on demand / hours on spot)."""
    if on_demand is None:
        return None
    spot_s = means(job, interval_s).held_s + rounding_s
    return 1 - billed_s(on_demand, on_demand_held_s(job)) / spot_s


def break_even_rate_per_s(job: SpotJob, most_held_s: float) -> float | None:
    """The interruption rate up to which ``job`` is held no longer than that; what to ask where none is known.

    ``most_held_s`` is the holding time at which spot costs what it is compared with. None where even the run
    that nothing interrupts is held longer. Answers end at one interruption every ten seconds.
    """
    if not _pays_at(job, 0.0, most_held_s):
        return None
    low, high = 0.0, 0.1
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high) if low else high / _DECADES
        if _pays_at(job, middle, most_held_s):
            low = middle
        else:
            high = middle
    return low


def _pays_at(job: SpotJob, rate_per_s: float, most_held_s: float) -> bool:
    at_rate = replace(job, interruptions_per_s=rate_per_s)
    interval_s = best_interval_s(at_rate)
    return makes_headway(at_rate, interval_s) and means(at_rate, interval_s).held_s <= most_held_s
