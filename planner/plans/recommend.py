"""From estimates and prices to a ranked recommendation: pure, and fast enough for the whole catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from catalogs.gpus import DeviceKind, Gpu
from catalogs.offers import Offer, Pricing
from catalogs.refresh import is_stale
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.cost.bill.price_run import Pricer, Terms
from planner.filters import Filters
from planner.plans.candidates import Candidates, ConfigsFor, Miss, NoConfig, StepEstimator, measured_in
from planner.plans.choose_config import ConfigChooser
from planner.plans.explain import compare, nearest_plan, shortfall
from planner.plans.plan import Plan, filtered, is_tied, plans_of, repriced
from planner.plans.recommendation import LeftOut, Recommendation, StalePrices
from planner.plans.renting import policies_for, with_break_even
from planner.plans.rule_out import rule_out
from planner.plans.sensitivity import sensitivities
from planner.plans.time_value import best_by_hour_value
from planner.plans.value_of_information import settling_trials
from planner.plans.winner import winner_of
from planner.target import Target
from trials.api import Measurement, Outcome, WorkloadProfile


def recommend(
    *,
    target: Target,
    profile: WorkloadProfile,
    offers: Sequence[Offer],
    gpus: Mapping[str, Gpu],
    outcomes: Sequence[Outcome],
    estimator: StepEstimator,
    configs_for: ConfigsFor,
    today: date,
    filters: Filters | None = None,
    confidence: float = 0.9,
    assumptions: CostAssumptions | None = None,
    sweep_usd: float | None = None,
) -> Recommendation:
    """Price every offer with its best configuration, rank by expected cost, and explain.

    Args:
        target: the run, its budget and deadline.
        profile: of the workload, handed to ``configs_for``.
        offers: the whole catalog; ``filters`` says what may be rented.
        gpus: figures by catalog name.
        outcomes: every trial of the workload so far.
        estimator: fitted to ``outcomes``; its intervals must have been made at ``confidence``.
        configs_for: the admissible configurations of a device type, worker count and node count.
        today: prices are aged against it.
        filters: what may be rented.
        confidence: of the intervals; limits are checked at their high ends.
        assumptions: what the user says of the bill; the trials' start-up, checkpoints and power come to it.
        sweep_usd: spent on trials, counted against the budget; None where it is unknown.
    """
    filters = filters or Filters()
    measurements = tuple(one for one in outcomes if isinstance(one, Measurement))
    terms = Terms(
        target=target,
        profile=profile,
        assumptions=assumptions or CostAssumptions(),
        sweep_usd=sweep_usd,
        measurements=measurements,
        confidence=confidence,
    )
    cpus = frozenset(name for name, gpu in gpus.items() if gpu.kind is DeviceKind.CPU)
    candidates = Candidates(
        target=target,
        profile=profile,
        estimator=estimator,
        configs_for=configs_for,
        ruled_out=rule_out(outcomes, cpus),
        measured=measured_in(outcomes),
    )
    kept, left_out = filtered(offers, gpus, filters)
    pricer = Pricer(terms)
    found, too_small = _all_plans(kept, gpus, ConfigChooser(candidates=candidates), pricer, left_out)
    ranking = _ranking(found, terms)
    winner, nearest, best, rivals = ranking.winner, ranking.nearest, ranking.best, ranking.rivals
    measured_gpus = frozenset(one.config.gpu for one in measurements)
    price_again = partial(repriced, pricer=pricer)
    return Recommendation(
        terms=terms,
        filters=filters,
        plans=ranking.plans,
        winner=winner,
        nearest=nearest,
        shortfall=shortfall(nearest, terms) if nearest else None,
        comparison=compare(ranking.plans, winner) if winner else None,
        policies=policies_for(best, kept, pricer) if best else None,
        frontier=_frontier([one for one in rivals if one.is_within_limits] or ranking.plans),
        time_values=best_by_hour_value(one for one in rivals if one.is_within_limits),
        sensitivities=sensitivities(rivals, winner, price_again, today) if winner else (),
        settling=settling_trials(rivals, _cheapest(rivals, winner), measured_gpus, terms, confidence),
        is_gpu_measured=any(name in gpus and name not in cpus for name in measured_gpus),
        measured_gpus=tuple(sorted(measured_gpus)),
        unpriced_gpus=tuple(sorted(measured_gpus - {one.gpu for one in offers})),
        left_out=_left_out(left_out),
        too_small=too_small,
        stale_prices=_stale(kept, today),
        offer_count=len(offers),
    )


def _all_plans(
    offers: Iterable[Offer],
    gpus: Mapping[str, Gpu],
    chooser: ConfigChooser,
    pricer: Pricer,
    left_out: Counter[tuple[str, str]],
) -> tuple[list[Plan], dict[str, NoConfig]]:
    """All plans, and by device the miss nearest to fitting; counts offers without a plan in ``left_out``."""
    plans: list[Plan] = []
    too_small: dict[str, NoConfig] = {}
    for offer in offers:
        results = list(plans_of(offer, gpus[offer.gpu], chooser, pricer))
        mine = [one for one in results if isinstance(one, Plan)]
        plans.extend(mine)
        misses = [one for one in results if isinstance(one, NoConfig)]
        for one in misses:
            nearest = too_small.get(offer.gpu)
            if one.needed_bytes is not None and (nearest is None or one.shortage < nearest.shortage):
                too_small[offer.gpu] = one
        if not mine:
            reason = max((one.miss for one in misses), key=list(Miss).index)  # the furthest that a count got
            left_out[offer.gpu, reason.value] += 1
    return plans, too_small


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranking:
    """All plans in order, and which is best."""

    plans: tuple[Plan, ...]
    winner: Plan | None
    nearest: Plan | None  # where none wins

    @property
    def best(self) -> Plan | None:
        return self.winner or self.nearest

    @property
    def rivals(self) -> Sequence[Plan]:
        """Of the best: what unknown interruptions cost is not known, so it is no rival to what is known."""
        if self.best is None or not self.best.is_cost_known:
            return self.plans
        return [one for one in self.plans if one.is_cost_known]


def _ranking(found: Iterable[Plan], terms: Terms) -> _Ranking:
    plans = with_break_even(_ranked(found))
    within = [one for one in plans if one.is_within_limits]
    winner = winner_of([one for one in within if one.is_cost_known] or within)
    nearest = None if winner else nearest_plan(plans, terms)
    best = winner or nearest
    if best is None:
        return _Ranking(plans=plans, winner=None, nearest=None)
    plans = _with_ties(plans, best)
    best = plans[best.rank - 1]
    return _Ranking(plans=plans, winner=best if winner else None, nearest=best if nearest else None)


def _ranked(plans: Iterable[Plan]) -> tuple[Plan, ...]:
    in_order = sorted(
        plans,
        key=lambda one: (
            one.weighed_usd.expected,
            one.duration_s.expected,
            one.instance_count,
            one.offer.provider,
            one.offer.instance_type,
            one.offer.region,
        ),
    )
    return tuple(replace(one, rank=rank) for rank, one in enumerate(in_order, start=1))


def _with_ties(plans: Iterable[Plan], best: Plan) -> tuple[Plan, ...]:
    """The same plans with those marked that cannot be told apart from the best."""
    return tuple(
        replace(one, is_tied_with_best=True) if one.rank != best.rank and is_tied(one, best) else one
        for one in plans
    )


def _frontier(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    frontier: list[Plan] = []
    for plan in sorted(plans, key=lambda one: (one.duration_s.expected, one.cost_usd.expected)):
        if not frontier or plan.cost_usd.expected < frontier[-1].cost_usd.expected:
            frontier.append(plan)
    return tuple(frontier)


def _cheapest(rivals: Sequence[Plan], winner: Plan | None) -> Plan | None:
    """What a trial must beat: the cheapest plan, which the winner at least ties with."""
    return next((one for one in rivals if one.is_within_limits), winner) if winner else None


def _left_out(counts: Counter[tuple[str, str]]) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(gpu=gpu, reason=reason, offer_count=count) for (gpu, reason), count in counts.items()
    )


def _stale(offers: Iterable[Offer], today: date) -> StalePrices | None:
    stale = [one for one in offers if is_stale(one, today)]
    if not stale:
        return None
    spot_count = sum(one.pricing is Pricing.SPOT for one in stale)
    return StalePrices(
        on_demand_count=len(stale) - spot_count, spot_count=spot_count, oldest=min(one.as_of for one in stale)
    )
