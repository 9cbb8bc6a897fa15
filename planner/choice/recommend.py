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
from planner.bill.parameters import Stated
from planner.bill.price_run import Pricer, Terms
from planner.choice.candidates import Candidates, ConfigsFor, Miss, NoChoice, StepEstimator, measured_in
from planner.choice.choose import Chooser
from planner.choice.explain import Comparison, Shortfall, compare, nearest_plan, shortfall
from planner.choice.plan import Plan, filtered, is_tied, plans_of, repriced
from planner.choice.renting import policies_for, with_break_even
from planner.choice.rule_out import rule_out
from planner.choice.sensitivity import Sensitivity, sensitivities
from planner.choice.settle import UsefulTrial, settling_trials
from planner.choice.time_value import TimeValue, best_by_hour_value
from planner.filters import Filters
from planner.spot.policy import PolicyChoice
from planner.target import Target
from trials.profile import WorkloadProfile
from trials.trial import Measurement, Outcome

__all__ = ["Filters", "LeftOut", "Plan", "Recommendation", "SetAside", "StalePrices", "recommend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Offers that carry no plan, and why."""

    reason: str
    offer_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Offers of one device type that carry no plan, and why."""

    gpu: str
    reason: str
    offer_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StalePrices:
    """Considered offers whose prices are older than such prices keep."""

    on_demand_count: int  # reserved ones included
    spot_count: int
    oldest: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The answer: what to rent, what else there is, and how sure that is.

    ``plans`` has the best configuration of every offer and instance count, cheapest first. ``winner`` is the
    cheapest one within budget and deadline at the high end of its interval, and a spot instance of unknown
    interruptions only where nothing else is. Without one, ``nearest`` and ``shortfall`` say what would have
    to give, or ``least_memory`` what memory would be needed when not even one plan exists.
    """

    terms: Terms
    filters: Filters
    plans: tuple[Plan, ...]
    winner: Plan | None
    nearest: Plan | None
    shortfall: Shortfall | None
    comparison: Comparison | None
    policies: PolicyChoice | None  # ways to rent the best plan's instances; None with only one
    frontier: tuple[Plan, ...]  # no other plan is both cheaper and faster; fastest first
    time_values: tuple[TimeValue, ...]  # which plan within the limits is best, by what an hour is worth
    sensitivities: tuple[Sensitivity, ...]  # of the winner
    settling: tuple[UsefulTrial, ...]  # what would settle the predictions that decide, the most useful first
    is_gpu_measured: bool
    measured_gpus: tuple[str, ...]  # catalog names, CPU classes included
    unpriced_gpus: tuple[str, ...]  # measured, but no offer in the catalog has them
    left_out: tuple[LeftOut, ...]  # offers that carry no plan, by device type
    too_small: Mapping[str, NoChoice]  # by device type: the nearest to fitting where it does not
    stale_prices: StalePrices | None
    offer_count: int  # in the catalog

    @property
    def target(self) -> Target:
        """The run, its budget and deadline."""
        return self.terms.target

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        return self.terms.confidence

    @property
    def sweep_usd(self) -> float | None:
        """Spent on trials so far; None where their devices have no price."""
        return self.terms.sweep_usd

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """The offers that carry no plan, by reason."""
        counts = Counter[str]()
        for one in self.left_out:
            counts[one.reason] += one.offer_count
        in_order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return tuple(SetAside(reason=reason, offer_count=count) for reason, count in in_order)

    @property
    def least_memory(self) -> NoChoice | None:
        """What would be needed where nothing carries a plan: of the device nearest to fitting."""
        return None if self.plans else min(self.too_small.values(), key=_shortage, default=None)

    @property
    def best(self) -> Plan | None:
        """The winner, or the nearest plan when nothing fits."""
        return self.winner or self.nearest

    @property
    def useful_trial(self) -> UsefulTrial | None:
        """The trial whose result is worth most after its own price."""
        return self.settling[0] if self.settling else None


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
    stated: Stated | None = None,
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
        stated: what the user says of the bill; the trials' start-up, checkpoints and power come to it.
        sweep_usd: spent on trials, counted against the budget; None where it is unknown.
    """
    filters = filters or Filters()
    terms = Terms(
        target=target,
        profile=profile,
        stated=stated or Stated(),
        sweep_usd=sweep_usd,
        measurements=tuple(one for one in outcomes if isinstance(one, Measurement)),
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
    found, too_small = _all_plans(kept, gpus, Chooser(candidates=candidates), pricer, left_out)
    plans = with_break_even(_ranked(found))
    within = [one for one in plans if one.is_within_limits]
    winner = next((one for one in within if one.is_cost_known), next(iter(within), None))
    nearest = None if winner else nearest_plan(plans, terms)
    plans, winner, nearest = _with_ties(plans, winner, nearest)
    best = winner or nearest
    # what an instance of unknown interruptions costs is not known, so it is no rival to what is known
    rivals = [one for one in plans if one.is_cost_known] if best and best.is_cost_known else plans
    measured_gpus = frozenset(one.config.gpu for one in outcomes if isinstance(one, Measurement))
    return Recommendation(
        terms=terms,
        filters=filters,
        plans=plans,
        winner=winner,
        nearest=nearest,
        shortfall=shortfall(nearest, terms) if nearest else None,
        comparison=compare(plans, winner) if winner else None,
        policies=policies_for(best, kept, pricer) if best else None,
        frontier=_frontier(plans),
        time_values=best_by_hour_value(one for one in rivals if one.is_within_limits),
        sensitivities=sensitivities(rivals, winner, partial(repriced, pricer=pricer), today)
        if winner
        else (),
        settling=settling_trials(rivals, winner, measured_gpus, terms, confidence),
        is_gpu_measured=any(name in gpus and name not in cpus for name in measured_gpus),
        measured_gpus=tuple(sorted(measured_gpus)),
        unpriced_gpus=tuple(sorted(measured_gpus - {one.gpu for one in offers})),
        left_out=tuple(
            LeftOut(gpu=gpu, reason=reason, offer_count=count) for (gpu, reason), count in left_out.items()
        ),
        too_small=too_small,
        stale_prices=_stale(kept, today),
        offer_count=len(offers),
    )


def _all_plans(
    offers: Iterable[Offer],
    gpus: Mapping[str, Gpu],
    chooser: Chooser,
    pricer: Pricer,
    left_out: Counter[tuple[str, str]],
) -> tuple[list[Plan], dict[str, NoChoice]]:
    """All plans, and by device the miss nearest to fitting; counts offers without a plan in ``left_out``."""
    plans: list[Plan] = []
    too_small: dict[str, NoChoice] = {}
    for offer in offers:
        results = list(plans_of(offer, gpus[offer.gpu], chooser, pricer))
        mine = [one for one in results if isinstance(one, Plan)]
        plans.extend(mine)
        misses = [one for one in results if isinstance(one, NoChoice)]
        for one in misses:
            nearest = too_small.get(offer.gpu)
            if one.needed_bytes is not None and (nearest is None or _shortage(one) < _shortage(nearest)):
                too_small[offer.gpu] = one
        if not mine:
            reason = max((one.miss for one in misses), key=list(Miss).index)  # the furthest that a count got
            left_out[offer.gpu, reason.value] += 1
    return plans, too_small


def _shortage(one: NoChoice) -> float:
    """Of the memory, as a ratio of what is there."""
    return (one.needed_bytes or 0.0) / (one.memory_bytes or 1)


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


def _with_ties(
    plans: tuple[Plan, ...], winner: Plan | None, nearest: Plan | None
) -> tuple[tuple[Plan, ...], Plan | None, Plan | None]:
    """The same plans with those marked that cannot be told apart from the best."""
    best = winner or nearest
    if best is None:
        return plans, None, None
    marked = tuple(
        replace(one, is_tied_with_best=True) if one.rank != best.rank and is_tied(one, best) else one
        for one in plans
    )
    same = marked[best.rank - 1]
    return marked, same if winner else None, same if nearest else None


def _frontier(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    frontier: list[Plan] = []
    for plan in sorted(plans, key=lambda one: (one.duration_s.expected, one.cost_usd.expected)):
        if not frontier or plan.cost_usd.expected < frontier[-1].cost_usd.expected:
            frontier.append(plan)
    return tuple(frontier)


def _stale(offers: Iterable[Offer], today: date) -> StalePrices | None:
    stale = [one for one in offers if is_stale(one, today)]
    if not stale:
        return None
    spot_count = sum(one.pricing is Pricing.SPOT for one in stale)
    return StalePrices(
        on_demand_count=len(stale) - spot_count, spot_count=spot_count, oldest=min(one.as_of for one in stale)
    )
