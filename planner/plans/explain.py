"""Why this plan and not the next, and what would have to give: as values.

The words are found in planner.reports; here are the numbers they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalogs.gpus import DeviceKind
from planner.cost.bill.price_run import Terms
from planner.cost.hours import SECONDS_PER_HOUR, billed_s, samples_within, training_s
from planner.plans.plan import Plan, is_tied


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The winner against the next plan on another device type or count, and what was passed over."""

    runner_up: Plan | None
    extra_usd: float | None  # that the runner-up is expected to cost more, waiting counted; may be negative
    speed_ratio: float | None  # runner-up's throughput over the winner's
    price_ratio: float | None  # runner-up's hourly price over the winner's
    is_tie: bool
    passed_over_count: int  # cheaper in expectation, but outside a limit at the high end or of unknown cost
    passed_over: Plan | None  # the cheapest of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What would have to give for the nearest plan, all else equal; None where that limit is not in the way.

    ``budget_usd`` and ``deadline_s`` are the least that would do; ``samples`` the most that would fit (0
    when not even provisioning does).
    """

    budget_usd: float | None
    deadline_s: float | None
    samples: int
    is_within_at_expected: bool  # only the high end breaks a limit


def compare(ranked: Sequence[Plan], winner: Plan) -> Comparison:
    """The winner beside the next different choice within the limits, or outside them if there is none."""
    cheaper = ranked[: winner.rank - 1]
    tied = [one for one in cheaper if one.is_within_limits and one.is_cost_known == winner.is_cost_known]
    passed_over = [one for one in cheaper if one not in tied]  # each is outside a limit, or of unknown cost
    others = [one for one in (*tied, *ranked[winner.rank :]) if devices_of(one) != devices_of(winner)]
    runner_up = next((one for one in others if one.is_within_limits), None) or next(iter(others), None)
    return Comparison(
        runner_up=runner_up,
        extra_usd=runner_up.weighed_usd.expected - winner.weighed_usd.expected if runner_up else None,
        speed_ratio=(
            runner_up.throughput_per_s.expected / winner.throughput_per_s.expected if runner_up else None
        ),
        price_ratio=runner_up.price_usd_per_hour / winner.price_usd_per_hour if runner_up else None,
        is_tie=runner_up is not None and is_tied(winner, runner_up),
        passed_over_count=len(passed_over),
        passed_over=passed_over[0] if passed_over else None,
    )


def nearest_plan(ranked: Sequence[Plan], terms: Terms) -> Plan | None:
    """The plan whose worst excess over a limit, as a ratio, is least; the cheaper of equals."""
    return min(ranked, key=lambda one: (_excess(one, terms), one.weighed_usd.expected), default=None)


def shortfall(plan: Plan, terms: Terms) -> Shortfall:
    """What would have to give for ``plan``, which is outside a limit."""
    return Shortfall(
        budget_usd=None if plan.is_within_budget else plan.total_usd.high,
        deadline_s=None if plan.is_within_deadline else plan.duration_s.high,
        samples=samples_within(
            terms.target,
            plan.offer,
            plan.instance_count,
            plan.step_time_s.high,
            plan.held_s.high - training_s(terms.target, plan.step_time_s).high,
            spent_usd=plan.total_usd.high - _rent_usd(plan),
        ),
        is_within_at_expected=_is_expected_within(plan, terms),
    )


def _rent_usd(plan: Plan) -> float:
    """Of the instances, at the high end of the time that they are held."""
    return billed_s(plan.offer, plan.held_s.high) / SECONDS_PER_HOUR * plan.price_usd_per_hour


def devices_of(plan: Plan) -> tuple[str, int]:
    """Device type and number; CPU instances differ by their vCPUs too."""
    is_cpu = plan.hardware.gpu.kind is DeviceKind.CPU
    return plan.offer.gpu, plan.offer.vcpus * plan.instance_count if is_cpu else plan.device_count


def _is_expected_within(plan: Plan, terms: Terms) -> bool:
    budget_usd, deadline_s = terms.target.budget_usd, terms.target.deadline_s
    is_affordable = budget_usd is None or plan.total_usd.expected <= budget_usd
    return is_affordable and (deadline_s is None or plan.duration_s.expected <= deadline_s)


def _excess(plan: Plan, terms: Terms) -> float:
    budget_usd, deadline_s = terms.target.budget_usd, terms.target.deadline_s
    return max(
        plan.total_usd.high / budget_usd if budget_usd else 0.0,
        plan.duration_s.high / deadline_s if deadline_s else 0.0,
    )
