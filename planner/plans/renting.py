"""Ways of renting the same devices: what each costs the run, and up to which interruptions spot pays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from catalogs.offers import Offer, Pricing
from planner.cost.bill.price_run import Pricer
from planner.cost.hours import SECONDS_PER_HOUR
from planner.cost.spot.break_even import break_even_discount, break_even_rate_per_s
from planner.cost.spot.compare import compare_policies
from planner.cost.spot.outcome import rounding_per_holding_s
from planner.cost.spot.policy import PolicyChoice, choose_policy
from planner.plans.plan import Plan


def with_break_even(ranked: Sequence[Plan]) -> tuple[Plan, ...]:
    """The same plans; those of unknown interruptions know up to which rate they are worth it.

    They are held against the cheapest on-demand plan within the limits, or the cheapest one of all.
    """
    on_demand = [one for one in ranked if one.spot is None]
    rival = next((one for one in on_demand if one.is_within_limits), next(iter(on_demand), None))
    if rival is None:
        return tuple(ranked)
    return tuple(_against(one, rival) for one in ranked)


def _against(plan: Plan, rival: Plan) -> Plan:
    spot = plan.spot
    if spot is None or plan.is_cost_known or plan.rank > rival.rank:
        return plan
    usd_per_s = plan.price_usd_per_hour / SECONDS_PER_HOUR
    spare_s = (rival.cost_usd.expected - plan.cost_usd.expected) / usd_per_s
    rate = break_even_rate_per_s(spot.job, plan.held_s.expected + spare_s)
    return replace(plan, spot=replace(spot, break_even_rate_per_s=rate))


def policies_for(plan: Plan, offers: Iterable[Offer], pricer: Pricer) -> PolicyChoice | None:
    """On-demand, spot, and spot that falls back, for the instances and the configuration of ``plan``.

    None where the same instances are not offered both ways, or nobody knows how often they are interrupted.
    """
    twins = [one for one in offers if _is_twin(one, plan.offer)]
    on_demand = _cheapest(twins, Pricing.ON_DEMAND)
    spot = _cheapest(twins, Pricing.SPOT)
    if plan.offer.pricing is Pricing.ON_DEMAND:
        on_demand = plan.offer
    elif plan.offer.pricing is Pricing.SPOT:
        spot = plan.offer
    if on_demand is None or spot is None:
        return None
    run = pricer.price(spot, plan.instance_count, plan.config, plan.step_time_s)
    if run is None or run.spot is None or not run.spot.is_rate_known:
        return None
    job, rounding_s = run.spot.job, rounding_per_holding_s(run.spot.job, spot)
    compared = compare_policies(
        job,
        run.spot.work_s,
        plan.instance_count,
        on_demand=on_demand,
        spot=spot,
        deadline_s=pricer.terms.target.deadline_s,
        on_demand_interval_s=pricer.terms.assumptions.save_interval_s,
    )
    choice = choose_policy(compared, pricer.terms.tail_fraction)
    return choice and replace(
        choice,
        discount_fraction=1 - spot.price_usd_per_hour / on_demand.price_usd_per_hour,
        break_even_discount_fraction=break_even_discount(
            job, run.checkpoint_interval_s, on_demand, rounding_s * (1 + (run.spot.interruption_count or 0.0))
        ),
    )


def _is_twin(one: Offer, other: Offer) -> bool:
    return (one.provider, one.instance_type, one.region, one.gpu) == (
        other.provider,
        other.instance_type,
        other.region,
        other.gpu,
    )


def _cheapest(offers: Iterable[Offer], pricing: Pricing) -> Offer | None:
    mine = [one for one in offers if one.pricing is pricing]
    return min(mine, key=lambda one: one.price_usd_per_hour, default=None)
