"""Which predictions decide what to rent, and the cheapest measurement that would settle each.

What a measurement is worth is the expected value of perfect information (Howard 1966) on the choice between
the winner and a rival. The cost C of a plan that is not measured is log-normal with mean M and the log-spread
s of its interval. Knowing C, a rival is taken where it is below the winner's W and within the limits,
and the winner is left where it is above the best rival's R:

    a rival:     E[(W - C) 1(z < b)] = W F(b) - M F(b - s),   b = min over W and the limits of ln(limit/m)/s
    the winner:  E[(C - R) 1(C > R)] = M F(s - b) - R F(-b),  b = ln(R/m)/s

where m = M exp(-s^2/2) is the median and F the normal distribution function. A trial has an error of its own
of a few percent, which is neglected. Plans on one unmeasured chip share its error and are settled together. A
trial on one of that chip teaches of a plan on several only the spread that one has: s is shortened to it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from catalogs.gpus import DeviceKind
from catalogs.offers import Offer
from planner.cost.hours import SECONDS_PER_HOUR, billed_s
from planner.estimate.interval.lognormal import NORMAL, expected_below, log_spread, median_of, spreads_to
from planner.estimate.values import Basis, Estimate
from planner.plans.explain import devices_of, nearest_plan
from planner.plans.plan import Plan, Terms

TRIAL_S = 360.0
"""How long the GPU of a suggested trial is held after provisioning: start-up and about ten short trials."""

DECIDING_FRACTION = 0.005
"""A prediction worth less than this share of the winner's cost to know decides nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsefulTrial:
    """One short trial on instances of ``offer``, and what knowing its result is worth."""

    offer: Offer
    instance_count: int
    trial_s: float
    cost_usd: float
    expected_saving_usd: float | None  # None where nothing fits: it would tell whether ``plan`` does
    plan: Plan  # the best plan on these devices, whose numbers the trial would settle
    rival: Plan | None  # between which and ``plan`` it decides; None where nothing fits

    @property
    def is_worth_its_price(self) -> bool:
        """Whether it is expected to save more than it costs, or to find a plan where there is none."""
        return self.expected_saving_usd is None or self.expected_saving_usd > self.cost_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """A plan whose cost is not known well, and the plan that it is weighed against."""

    plan: Plan
    rival: Plan | None
    is_winner: bool


def settling_trials(
    ranked: Sequence[Plan],
    winner: Plan | None,
    measured_gpus: frozenset[str],
    terms: Terms,
    confidence: float,
) -> tuple[UsefulTrial, ...]:
    """The trials that would settle what decides, the one worth most after its own price first.

    Where no GPU was measured and nothing decides, the one on a GPU all the same. Without a winner the one
    that would tell whether the plan nearest to the limits fits.
    """
    if winner is None:
        unsure = [one for one in ranked if one.basis is not Basis.MEASURED and _may_fit(one, terms)]
        nearest = nearest_plan([one for one in unsure if _is_expected_to_fit(one, terms)] or unsure, terms)
        if nearest is None:
            return ()
        decisions = [_Decision(plan=nearest, rival=None, is_winner=False)]
    else:
        decisions = _decisions(ranked, winner, measured_gpus, terms)
    cheapest = _cheapest_places(ranked)
    found = [_best_trial(one, cheapest, measured_gpus, terms, confidence) for one in decisions]
    found.sort(
        key=lambda one: ((one.expected_saving_usd or 0.0) - one.cost_usd, -one.plan.rank), reverse=True
    )
    if winner is None:
        return tuple(found)
    floor_usd = DECIDING_FRACTION * winner.weighed_usd.expected
    deciding = [one for one in found if (one.expected_saving_usd or 0.0) > floor_usd]
    if deciding or any(one.offer.gpu in measured_gpus for one in ranked if _is_gpu(one)):
        return tuple(deciding)
    return tuple([one for one in found if _is_gpu(one.plan)][:1])


def _decisions(
    ranked: Sequence[Plan], winner: Plan, measured_gpus: frozenset[str], terms: Terms
) -> list[_Decision]:
    """The winner against its best rival, and every other subject's best plan against the winner."""
    best: dict[Hashable, Plan] = {}
    for plan in ranked:
        if _is_expected_to_fit(plan, terms):
            best.setdefault(_subject(plan, measured_gpus), plan)
    mine = _subject(winner, measured_gpus)
    others = [one for subject, one in best.items() if subject != mine]
    rival = next((one for one in others if one.is_within_limits), None)
    found = [_Decision(plan=one, rival=winner, is_winner=False) for one in others]
    if rival is not None:
        found.append(_Decision(plan=winner, rival=rival, is_winner=True))
    return [one for one in found if one.plan.basis is not Basis.MEASURED]


def leaving_usd(cost_usd: Estimate, spread: float, rival_usd: float) -> float:
    """Expected saving from learning ``spread`` of the winner's cost, and taking the rival if that is less."""
    if spread <= 0:
        return 0.0
    mean_usd = cost_usd.expected
    bound = math.log(rival_usd / median_of(mean_usd, spread)) / spread
    return max(0.0, mean_usd * NORMAL.cdf(spread - bound) - rival_usd * NORMAL.cdf(-bound))


def taking_usd(cost_usd: Estimate, spread: float, winner_usd: float, limit: float = math.inf) -> float:
    """Expected saving from learning ``spread`` of a rival's cost, and taking it if that is less.

    ``limit`` is how many spreads above its median the rival leaves the budget or the deadline.
    """
    return expected_below(cost_usd.expected, spread, winner_usd, limit) if spread > 0 else 0.0


def _subject(plan: Plan, measured_gpus: frozenset[str]) -> Hashable:
    """What one trial settles: a chip that was never measured, or one count of a chip that was."""
    return devices_of(plan) if plan.offer.gpu in measured_gpus else plan.offer.gpu


def _cheapest_places(ranked: Sequence[Plan]) -> dict[Hashable, Plan]:
    """By devices, and by chip: where an hour costs least."""
    cheapest: dict[Hashable, Plan] = {}
    for plan in ranked:
        for key in (devices_of(plan), plan.offer.gpu):
            if key not in cheapest or plan.price_usd_per_hour < cheapest[key].price_usd_per_hour:
                cheapest[key] = plan
    return cheapest


def _best_trial(
    decision: _Decision,
    cheapest: Mapping[Hashable, Plan],
    measured_gpus: frozenset[str],
    terms: Terms,
    confidence: float,
) -> UsefulTrial:
    """On the plan's own devices, or on the cheapest instance with its chip: whichever is worth more."""
    plan = decision.plan
    places = [cheapest[devices_of(plan)]]
    if plan.offer.gpu not in measured_gpus:
        places.append(cheapest[plan.offer.gpu])
    trials = [_trial(decision, one, terms, confidence) for one in places]
    return max(trials, key=lambda one: (one.expected_saving_usd or 0.0) - one.cost_usd)


def _trial(decision: _Decision, place: Plan, terms: Terms, confidence: float) -> UsefulTrial:
    """On fewer devices than the plan's it teaches what is uncertain there, and nothing of the scaling."""
    plan, rival = decision.plan, decision.rival
    saving_usd = None
    if rival is not None:
        of_step = log_spread(plan.step_time_s, confidence)
        learnt = min(1.0, log_spread(place.step_time_s, confidence) / of_step) if of_step else 0.0
        spread = learnt * log_spread(plan.weighed_usd, confidence)
        against_usd = rival.weighed_usd.expected
        saving_usd = (
            leaving_usd(plan.weighed_usd, spread, against_usd)
            if decision.is_winner
            else taking_usd(plan.weighed_usd, spread, against_usd, _spreads_to_limit(plan, terms, confidence))
        )
    held_s = billed_s(place.offer, terms.provisioning_s + TRIAL_S)
    return UsefulTrial(
        offer=place.offer,
        instance_count=place.instance_count,
        trial_s=TRIAL_S,
        cost_usd=held_s / SECONDS_PER_HOUR * place.price_usd_per_hour,
        expected_saving_usd=saving_usd,
        plan=plan,
        rival=rival,
    )


def _spreads_to_limit(plan: Plan, terms: Terms, confidence: float) -> float:
    """How many spreads above its median the plan leaves the budget or the deadline."""
    limits = ((plan.total_usd, terms.target.budget_usd), (plan.duration_s, terms.target.deadline_s))
    return min(
        (spreads_to(estimate, limit, confidence) for estimate, limit in limits if limit is not None),
        default=math.inf,
    )


def _is_gpu(plan: Plan) -> bool:
    return plan.hardware.gpu.kind is DeviceKind.GPU


def _is_expected_to_fit(plan: Plan, terms: Terms) -> bool:
    return _is_within(plan.total_usd.expected, plan.duration_s.expected, terms)


def _may_fit(plan: Plan, terms: Terms) -> bool:
    return _is_within(plan.total_usd.low, plan.duration_s.low, terms)


def _is_within(total_usd: float, duration_s: float, terms: Terms) -> bool:
    budget_usd, deadline_s = terms.target.budget_usd, terms.target.deadline_s
    is_affordable = budget_usd is None or total_usd <= budget_usd
    return is_affordable and (deadline_s is None or duration_s <= deadline_s)
