"""Why this plan and not the next, or what would make one fit."""

from __future__ import annotations

from pydantic import AliasPath, Field

from planner.plans.explain import Comparison, Shortfall
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.plans.ties import NEGLIGIBLE_FRACTION
from planner.reports import formats
from planner.reports.content import Section, texts
from planner.reports.labels import configuration, devices, fit, place, rental
from planner.reports.models import JsonModel
from planner.reports.report import Report
from planner.reports.sections.answer import limits

NAMED_TIES = 3


class ShortfallJson(JsonModel):
    """What would make the nearest plan fit; null where that limit is not in the way."""

    needed_budget_usd: float | None = Field(validation_alias="budget_usd")
    needed_deadline_s: float | None = Field(validation_alias="deadline_s")
    samples_that_fit: int = Field(validation_alias="samples")
    is_within_at_expected: bool


class ComparisonJson(JsonModel):
    """The winner beside the next best on other devices."""

    runner_up_rank: int | None = Field(default=None, validation_alias=AliasPath("runner_up", "rank"))
    extra_usd: float | None
    speed_ratio: float | None
    price_ratio: float | None
    is_tie: bool
    passed_over_count: int
    passed_over_rank: int | None = Field(default=None, validation_alias=AliasPath("passed_over", "rank"))


class Data(JsonModel):
    """Why this plan."""

    explanation: str
    shortfall: ShortfallJson | None
    comparison: ComparisonJson | None


def section(report: Report) -> Section:
    """One paragraph."""
    answer = report.recommendation
    explained = explanation(answer)
    return Section(
        title="Why this one" if answer.winner else "What would make a plan fit",
        blocks=texts(explained),
        data=Data.model_validate(
            {
                "explanation": explained,
                "shortfall": answer.shortfall,
                "comparison": answer.comparison,
            }
        ),
    )


def explanation(answer: Recommendation) -> str:
    """One paragraph: why this plan and not the next, or what would have to give."""
    if answer.winner is not None and answer.comparison is not None:
        return _why(answer, answer.winner, answer.comparison)
    if answer.nearest is not None and answer.shortfall is not None:
        return _what_would_have_to_give(answer, answer.nearest, answer.shortfall)
    return _why_no_plan(answer)


def _why(answer: Recommendation, winner: Plan, comparison: Comparison) -> str:
    parts = [
        _what_it_is(answer, winner),
        _passed_over(answer, comparison),
        _runner_up(answer, comparison),
        _ties(answer, winner),
    ]
    return " ".join(one for one in parts if one)


def _what_it_is(answer: Recommendation, winner: Plan) -> str:
    has_limits = answer.target.budget_usd is not None or answer.target.deadline_s is not None
    kept = f" that keeps {limits(answer)} at the high end of its interval" if has_limits else ""
    hour_usd = answer.target.hour_value_usd
    cheaper = [
        one
        for one in answer.plans[: winner.rank - 1]
        if one.is_within_limits and one.is_cost_known and one.is_tied_with_best
    ]
    if cheaper:
        first = cheaper[0]
        reason = _why_of_ties(winner, first)
        return (
            f"{devices(winner)} is {reason} of the plans that cannot be told apart in cost from the cheapest"
            f"{kept}, which is {devices(first)} at {formats.usd(first.cost_usd.expected)} in "
            f"{formats.duration(first.duration_s.expected)}."
        )
    if not hour_usd:
        return f"{devices(winner)} is the cheapest plan{kept}."
    waiting_usd = winner.weighed_usd.expected - winner.cost_usd.expected
    return (
        f"With {formats.usd_limit(hour_usd)} for an hour of waiting, {devices(winner)} is the plan{kept} "
        f"whose bill and waiting add up to least: {formats.usd(winner.cost_usd.expected)} and "
        f"{formats.usd(waiting_usd)} for {formats.duration(winner.duration_s.expected)}."
    )


def _why_of_ties(winner: Plan, cheapest: Plan) -> str:
    if winner.duration_s.expected < cheapest.duration_s.expected * (1 - NEGLIGIBLE_FRACTION):
        return "the fastest"
    return "the best measured" if winner.basis != cheapest.basis else "the one with the freshest price"


def _passed_over(answer: Recommendation, comparison: Comparison) -> str:
    plan = comparison.passed_over
    if plan is None:
        return ""
    many = comparison.passed_over_count > 1
    reasons = []
    if not plan.is_within_deadline:
        late = plan.spot.miss_probability if plan.spot else None
        often = "" if late is None else f" in {formats.percent(late)} of runs"
        reasons.append(
            f"take up to {formats.duration(plan.duration_s.high)}, past the deadline of "
            f"{formats.duration(answer.target.deadline_s)}{often}"
        )
    if not plan.is_within_budget:
        reasons.append(
            f"need up to {formats.usd(plan.total_usd.high)}, over the budget of "
            f"{formats.usd_limit(answer.target.budget_usd)}"
        )
    if not plan.is_cost_known:
        reasons.append(_unknown(plan))
    return (
        f"{formats.counted(comparison.passed_over_count, 'plan')} with a lower expected cost "
        f"{'were' if many else 'was'} passed over: {'the cheapest, ' if many else ''}{devices(plan)} "
        f"at {formats.usd(plan.cost_usd.expected)}, may {' and '.join(reasons)}."
    )


def _unknown(plan: Plan) -> str:
    rate = plan.spot.break_even_rate_per_s if plan.spot else None
    worth = ""
    if rate:
        worth = f" (it is worth it up to one interruption every {formats.duration(1 / rate)})"
    return f"be interrupted, nobody publishes how often{worth}"


def _runner_up(answer: Recommendation, comparison: Comparison) -> str:
    plan = comparison.runner_up
    waiting = " with the waiting" if answer.target.hour_value_usd else ""
    if plan is None or comparison.extra_usd is None:
        return "No other device type or count carries a plan at a higher cost."
    speed, price = comparison.speed_ratio or 1.0, comparison.price_ratio or 1.0
    text = (
        f"The next best on other devices is {devices(plan)} ({plan.offer.instance_type} from "
        f"{plan.offer.provider}, {plan.basis}): {formats.ratio(speed)} the speed at "
        f"{formats.ratio(price)} the hourly price, so the run would cost "
        f"{formats.usd(plan.cost_usd.expected)}, {_more_or_less(comparison.extra_usd)}{waiting}"
    )
    if not plan.is_within_limits:
        text += f", and it is {fit(plan)} at the high end"
    if comparison.is_tie:
        text += ". That is within the error of the two costs: neither is known to be cheaper"
    return f"{text}."


def _more_or_less(extra_usd: float | None) -> str:
    extra_usd = extra_usd or 0.0
    return f"{formats.usd(abs(extra_usd))} {'less' if extra_usd < 0 else 'more'}"


def _ties(answer: Recommendation, winner: Plan) -> str:
    tied = [one for one in answer.plans if one.is_tied_with_best]
    parts = []
    if tied:
        names = dict.fromkeys(devices(one) for one in tied)
        more = len(names) - NAMED_TIES
        shown = ", ".join(list(names)[:NAMED_TIES]) + (f" and {more} more" if more > 0 else "")
        parts.append(
            f"{formats.counted(len(tied), 'other plan')} cannot be told apart from it in cost ({shown})."
        )
    if winner.tied_configs:
        others = "; ".join(configuration(one) for one in winner.tied_configs[:2])
        parts.append(f"On the same devices it ties with {others}; the simpler configuration is taken.")
    return " ".join(parts)


def _what_would_have_to_give(answer: Recommendation, plan: Plan, short: Shortfall) -> str:
    target = answer.target
    gives = []
    if short.budget_usd is not None:
        gives.append(f"raise the budget to {formats.usd_up(short.budget_usd)}")
    if short.deadline_s is not None:
        gives.append(f"extend the deadline to {formats.duration_up(short.deadline_s)}")
    fewer = (
        f"or train at most {formats.whole(short.samples)} of the {formats.whole(target.samples)} samples"
        if short.samples
        else "and no number of samples fits, since the instances are not even ready in time or for that money"
    )
    hint = (
        " In expectation it does fit; only the high end does not, so a measurement on that device may "
        "settle it."
        if short.is_within_at_expected
        else ""
    )
    return (
        f"No plan keeps {limits(answer)} at {formats.percent(answer.confidence)} confidence. The nearest is "
        f"{rental(plan)} ({place(plan)}): {formats.usd(plan.total_usd.expected)} (up to "
        f"{formats.usd(plan.total_usd.high)}) with the sweep, in "
        f"{formats.duration(plan.duration_s.expected)} (up to {formats.duration(plan.duration_s.high)}). "
        f"To make it fit, {' and '.join(gives)}, {fewer}.{hint}"
    )


def _why_no_plan(answer: Recommendation) -> str:
    if not answer.offer_count:
        return "The catalog has no offers."
    counts = "; ".join(f"{one.reason} ({one.offer_count})" for one in answer.set_aside)
    text = f"None of the {answer.offer_count} offers in the catalog carries a plan: {counts}."
    least = answer.least_memory
    if least is not None and least.needed_bytes is not None:
        text += (
            f" The nearest to fitting needs {formats.size(least.needed_bytes)} per worker at the high end, "
            f"on {formats.size(least.memory_bytes)} of memory."
        )
    return text
