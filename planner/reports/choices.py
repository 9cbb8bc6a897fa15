"""The choices in the head: the cheapest plan, the best balance, the fastest, and what may spoil each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from catalogs.offers import STALE_AFTER
from planner.estimate.values import Basis
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.plans.sensitivity import price_drift_fraction
from planner.reports import formats

TIGHT_MEMORY_FRACTION = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A plan and what it is the best in."""

    title: str
    plan: Plan


def choices(answer: Recommendation) -> tuple[Choice, ...]:
    """At most three, each plan once; the nearest plan alone where nothing fits."""
    winner = answer.winner
    if winner is None:
        return (Choice(title="Nearest to fitting", plan=answer.nearest),) if answer.nearest else ()
    within = [one for one in answer.plans if one.is_within_limits]
    known = [one for one in within if one.is_cost_known] or within
    cheapest = min(known, key=lambda one: (one.cost_usd.expected, one.rank))
    fastest = min(known, key=lambda one: (one.duration_s.expected, one.rank))
    hour_usd = answer.target.hour_value_usd
    balance = f"Best at {formats.usd_limit(hour_usd)} per hour of waiting" if hour_usd else "Best balance"
    has_budget = answer.target.budget_usd is not None
    named = (
        (winner, balance),
        (cheapest, "Cheapest"),
        (fastest, "Fastest within the budget" if has_budget else "Fastest"),
    )
    titles: dict[int, list[str]] = {}
    for plan, title in named:
        titles.setdefault(plan.rank, []).append(title)
    by_rank = {plan.rank: plan for plan, _ in named}
    return tuple(Choice(title=_joined(words), plan=by_rank[rank]) for rank, words in titles.items())


def price_age(plan: Plan, today: date) -> str:
    """That the price is old; "" where it is fresh enough to be believed."""
    age = today - plan.offer.as_of
    return f"{age.days} days old" if age > STALE_AFTER[plan.offer.pricing] else ""


def risk(plan: Plan, today: date) -> str:
    """The one thing that could spoil a plan: of all that could, what would cost most."""
    cost = plan.cost_usd
    found = [(cost.high - cost.expected, _by_speed(plan))]
    age = price_age(plan, today)
    if age:
        drift = price_drift_fraction(plan.offer, today)
        text = f"its price is {age}; after so long prices differ by up to {formats.percent(drift)}"
        found.append((cost.expected * drift, text))
    if not plan.is_cost_known:
        text = "nobody publishes how often this spot instance is interrupted"
        found.append((cost.expected, text))
    elif plan.spot is not None and plan.spot.cost_usd_p90 is not None:
        text = f"interruptions: in one run of ten the rent is over {formats.usd(plan.spot.cost_usd_p90)}"
        found.append((plan.spot.cost_usd_p90 - cost.expected, text))
    if plan.memory_headroom_fraction < TIGHT_MEMORY_FRACTION and plan.basis is not Basis.MEASURED:
        text = f"memory: only {formats.percent(plan.memory_headroom_fraction)} may be left"
        found.append((cost.expected * TIGHT_MEMORY_FRACTION, text))
    return max(found, key=lambda one: one[0])[1]


def _by_speed(plan: Plan) -> str:
    cost, time = formats.usd(plan.cost_usd.high), formats.duration(plan.duration_s.high)
    if plan.basis is Basis.MEASURED:
        return f"at the slow end of what was measured it takes {time} and costs {cost}"
    return f"the speed is not measured: at its slow end the run takes {time} and costs {cost}"


def _joined(titles: list[str]) -> str:
    lower = [titles[0], *(one[0].lower() + one[1:] for one in titles[1:])]
    return " and ".join((", ".join(lower[:-1]), lower[-1])) if len(lower) > 1 else lower[0]
