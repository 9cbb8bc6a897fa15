"""Ways to rent the best plan's instances: on demand, on spot, or spot with a fall-back."""

from __future__ import annotations

from pydantic import AliasPath, Field

from planner.cost.spot.policy import Policy, PolicyOutcome, Reason
from planner.estimate.values import Estimate
from planner.plans.recommendation import Recommendation
from planner.reports import formats
from planner.reports.content import Section, texts
from planner.reports.models import JsonModel
from planner.reports.report import Report

_ANY_DISCOUNT_FRACTION = 0.001  # below it no discount that anyone offers is too small


class PolicyJson(JsonModel):
    """A way to rent the best plan's instances."""

    policy: Policy
    rent_usd: Estimate = Field(validation_alias="cost_usd")
    wall_s: Estimate
    deadline_missed_fraction: float | None = Field(validation_alias="miss_probability")
    on_demand_fraction: float
    checkpoint_interval_s: float


class PoliciesJson(JsonModel):
    """The ways to rent the best plan's instances."""

    chosen: Policy = Field(validation_alias=AliasPath("chosen", "policy"))
    reason: Reason
    accepted_miss_fraction: float
    discount_fraction: float | None
    break_even_discount_fraction: float | None
    compared: tuple[PolicyJson, ...]


class Data(JsonModel):
    """The ways that were compared; null with only one."""

    ways_to_rent: str
    policies: PoliciesJson | None


def section(report: Report) -> Section:
    """One paragraph."""
    answer = report.recommendation
    rented = ways_to_rent(answer)
    return Section(
        title="Ways to rent",
        blocks=texts(rented),
        data=Data.model_validate({"ways_to_rent": rented, "policies": answer.policies}),
    )


def ways_to_rent(answer: Recommendation) -> str:
    """The policies that were compared for the best plan, which one suits it and why; "" without any."""
    choice, best = answer.policies, answer.best
    if choice is None or best is None:
        return ""
    compared = "; ".join(_policy(one) for one in choice.compared)
    text = (
        f"Ways to rent {best.offer.instance_type}, by expected rent: {compared}. Of these "
        f"{choice.chosen.policy} suits this run: {choice.reason}."
    )
    pays_from, discount = choice.break_even_discount_fraction, choice.discount_fraction
    if pays_from is None or discount is None:
        return text
    from_where = (
        "at any discount"
        if pays_from < _ANY_DISCOUNT_FRACTION
        else f"from a discount of {formats.percent(pays_from)} on"
    )
    return f"{text} Spot alone costs less than on-demand {from_where}; it is {formats.percent(discount)}."


def _policy(one: PolicyOutcome) -> str:
    late = ""
    if one.miss_probability is not None:
        late = f", late in {formats.percent(one.miss_probability)} of runs"
    share = ""
    if one.policy is Policy.SPOT_WITH_FALLBACK:
        share = f", {formats.percent(one.on_demand_fraction)} of the hours on demand"
    return f"{one.policy} {formats.usd(one.cost_usd.expected)} ({_tenths(one)}{share}{late})"


def _tenths(one: PolicyOutcome) -> str:
    return f"10th to 90th percentile {formats.interval(one.cost_usd, formats.usd)}"
