"""What an hour of waiting is worth decides between the cheap plan and the fast one.

A plan is worth renting at v dollars an hour where cost + v x hours is least among the plans within the
limits. The plans that are best at some v are the corners of the lower convex hull of cost against time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.cost.hours import SECONDS_PER_HOUR
from planner.plans.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeValue:
    """The best plan from so many dollars for an hour of waiting, up to the next one's."""

    hour_value_usd: float
    plan: Plan


def best_by_hour_value(plans: Iterable[Plan]) -> tuple[TimeValue, ...]:
    """The cheapest of ``plans`` first, then each that overtakes it as time gets dearer."""
    left = list(plans)
    if not left:
        return ()
    best = min(left, key=lambda one: (one.cost_usd.expected, one.duration_s.expected))
    found = [TimeValue(hour_value_usd=0.0, plan=best)]
    while True:
        faster = [one for one in left if one.duration_s.expected < best.duration_s.expected]
        if not faster:
            return tuple(found)
        value, _, best = min(
            ((_overtakes_at(one, best), one.duration_s.expected, one) for one in faster),
            key=lambda row: row[:2],
        )
        found.append(TimeValue(hour_value_usd=value, plan=best))


def _overtakes_at(faster: Plan, cheaper: Plan) -> float:
    hours = (cheaper.duration_s.expected - faster.duration_s.expected) / SECONDS_PER_HOUR
    return (faster.cost_usd.expected - cheaper.cost_usd.expected) / hours
