"""Why this plan and not the next, what would have to give, and which trial would help most: as values.

The words are found in planner.reports; here are the numbers they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from catalogs.gpus import DeviceKind
from catalogs.offers import Offer
from planner.cost import SECONDS_PER_HOUR, billed_s, samples_within
from planner.estimate.values import Estimate
from planner.plan import Plan, Terms, is_tied

TRIAL_S = 360.0
"""How long the GPU of a suggested trial is held after provisioning: start-up and about ten short trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The winner against the next plan on another device type or count, and what was passed over."""

    runner_up: Plan | None
    extra_usd: float | None  # that the runner-up is expected to cost more
    speed_ratio: float | None  # runner-up's throughput over the winner's
    price_ratio: float | None  # runner-up's hourly price over the winner's
    is_tie: bool
    passed_over_count: int  # cheaper in expectation, but outside a limit at the high end
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UsefulTrial:
    """One short trial on one instance of ``offer``, and what knowing its result is worth."""

    offer: Offer
    trial_s: float
    cost_usd: float
    expected_saving_usd: float | None  # None where nothing fits: it would tell whether ``plan`` does
    plan: Plan  # the best plan on this device, whose numbers the trial would settle


def compare(ranked: Sequence[Plan], winner: Plan) -> Comparison:
    """The winner beside the next different choice within the limits, or outside them if there is none."""
    passed_over = [one for one in ranked[: winner.rank - 1] if not one.is_within_limits]
    others = [one for one in ranked if one.rank > winner.rank and _devices(one) != _devices(winner)]
    runner_up = next((one for one in others if one.is_within_limits), None) or next(iter(others), None)
    return Comparison(
        runner_up=runner_up,
        extra_usd=runner_up.cost_usd.expected - winner.cost_usd.expected if runner_up else None,
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
    return min(ranked, key=lambda one: (_excess(one, terms), one.cost_usd.expected), default=None)


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
            terms.provisioning_s,
            spent_usd=terms.sweep_usd or 0.0,
        ),
        is_within_at_expected=_is_expected_within(plan, terms),
    )


def useful_trial(
    ranked: Sequence[Plan],
    offers: Iterable[Offer],
    measured_gpus: frozenset[str],
    terms: Terms,
    confidence: float,
) -> UsefulTrial | None:
    """The trial on a GPU that nobody measured whose result is worth most after its own price.

    Worth is the expected value of perfect information (Howard 1966): knowing the cost C of the best plan on
    that GPU, one takes the cheaper of C and the best plan elsewhere; without knowing, the better bet. Only
    plans expected to keep budget and deadline are worth knowing more about. If there are none, it is the
    nearest plan that would fit at its low end.
    """
    hopeful = [one for one in ranked if _is_expected_within(one, terms)]
    nearest = nearest_plan([one for one in ranked if _is_low_within(one, terms)], terms)
    best: dict[str, Plan] = {}
    for plan in hopeful or ([nearest] if nearest else []):
        if plan.hardware.gpu.kind is DeviceKind.GPU and plan.offer.gpu not in measured_gpus:
            best.setdefault(plan.offer.gpu, plan)
    cheapest: dict[str, Offer] = {}
    for offer in sorted(offers, key=lambda one: one.price_usd_per_hour):
        if offer.gpu in best:
            cheapest.setdefault(offer.gpu, offer)

    def trial_on(gpu: str, plan: Plan) -> UsefulTrial:
        saving_usd = _information_usd(plan.cost_usd, _best_elsewhere(hopeful, gpu), confidence)
        return UsefulTrial(
            offer=cheapest[gpu],
            trial_s=TRIAL_S,
            cost_usd=_trial_usd(cheapest[gpu], terms.provisioning_s),
            expected_saving_usd=saving_usd if hopeful else None,
            plan=plan,
        )

    trials = [trial_on(gpu, plan) for gpu, plan in best.items()]
    return max(
        trials,
        key=lambda one: ((one.expected_saving_usd or 0.0) - one.cost_usd, -one.plan.rank),
        default=None,
    )


def _information_usd(cost_usd: Estimate, elsewhere_usd: float | None, confidence: float) -> float:
    """Expected saving from knowing a log-normal cost before choosing between it and ``elsewhere_usd``."""
    if elsewhere_usd is None or cost_usd.low <= 0 or cost_usd.high <= cost_usd.low:
        return 0.0
    normal = NormalDist()
    sigma = math.log(cost_usd.high / cost_usd.low) / (2 * normal.inv_cdf((1 + confidence) / 2))
    mean_usd = cost_usd.expected * math.exp(sigma**2 / 2)
    at = math.log(elsewhere_usd / cost_usd.expected) / sigma
    informed_usd = mean_usd * normal.cdf(at - sigma) + elsewhere_usd * (1 - normal.cdf(at))
    uninformed_usd = mean_usd if cost_usd.expected <= elsewhere_usd else elsewhere_usd
    return max(0.0, uninformed_usd - informed_usd)


def _best_elsewhere(ranked: Sequence[Plan], gpu: str) -> float | None:
    return next((one.cost_usd.expected for one in ranked if one.offer.gpu != gpu), None)


def _trial_usd(offer: Offer, provisioning_s: float) -> float:
    return billed_s(offer, provisioning_s + TRIAL_S) / SECONDS_PER_HOUR * offer.price_usd_per_hour


def _devices(plan: Plan) -> tuple[str, int]:
    """Device type and number; CPU instances differ by their vCPUs too."""
    is_cpu = plan.hardware.gpu.kind is DeviceKind.CPU
    return plan.offer.gpu, plan.offer.vcpus * plan.instance_count if is_cpu else plan.device_count


def _is_expected_within(plan: Plan, terms: Terms) -> bool:
    budget_usd, deadline_s = terms.target.budget_usd, terms.target.deadline_s
    is_affordable = budget_usd is None or plan.total_usd.expected <= budget_usd
    return is_affordable and (deadline_s is None or plan.duration_s.expected <= deadline_s)


def _is_low_within(plan: Plan, terms: Terms) -> bool:
    budget_usd, deadline_s = terms.target.budget_usd, terms.target.deadline_s
    is_affordable = budget_usd is None or plan.total_usd.low <= budget_usd
    return is_affordable and (deadline_s is None or plan.duration_s.low <= deadline_s)


def _excess(plan: Plan, terms: Terms) -> float:
    budget_usd, deadline_s = terms.target.budget_usd, terms.target.deadline_s
    return max(
        plan.total_usd.high / budget_usd if budget_usd else 0.0,
        plan.duration_s.high / deadline_s if deadline_s else 0.0,
    )
