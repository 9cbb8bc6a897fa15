"""Why not that GPU: what would have to change for the cheapest plan on it to win, or why it carries none.

Price and speed are changed on their own, all else equal, and the plan is priced anew, so that waiting,
billing blocks and limits count. The speed-up is held against what the plan's own interval allows, and, with
several devices, against perfect scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalogs.offers import Offer
from planner.plans.candidates import NoConfig
from planner.plans.explain import nearest_plan
from planner.plans.plan import Plan
from planner.plans.recommendation import LeftOut, Recommendation
from planner.plans.sensitivity import FACTOR_MAX, Reprice, crossing


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """A GPU type against the best plan.

    ``price_usd_per_hour`` and ``speedup`` are the least changes that make ``plan`` win, each on its own;
    None where no change up to a hundredfold does.
    """

    gpu: str
    best: Plan | None  # the winner; the nearest plan where nothing fits; None without any plan
    plan: Plan | None  # the best one on this GPU; the nearest where none is within the limits
    is_winner: bool
    offer_count: int  # in the catalog
    left_out: tuple[LeftOut, ...]  # offers of it that carry no plan
    too_small: NoConfig | None  # the nearest to fitting of the devices that its memory does not suffice on
    price_usd_per_hour: float | None = None  # of all instances of ``plan``
    speedup: float | None = None  # over the expected speed
    speedup_of_interval: float | None = None  # of the fast end of the interval over the expected speed
    scaling_fraction: float | None = None  # of perfect scaling from the fewest devices; None on those
    scaling_needed_fraction: float | None = None  # the same with ``speedup``; over 1 is out of reach

    @property
    def is_speedup_within_interval(self) -> bool:
        """Whether a measurement may still show the plan to be fast enough."""
        return (
            self.speedup is not None
            and self.speedup_of_interval is not None
            and self.speedup <= self.speedup_of_interval
        )


def why_not(answer: Recommendation, gpu: str, offers: Sequence[Offer], reprice: Reprice) -> WhyNot:
    """Why the plan on ``gpu``, a catalog name, is not the winner."""
    mine = [one for one in answer.plans if one.offer.gpu == gpu]
    mine = [one for one in mine if one.is_cost_known] or mine  # as the winner is chosen
    within = (one for one in mine if one.is_within_limits)
    plan = next(within, None) or nearest_plan(mine, answer.terms)
    too_small = answer.too_small.get(gpu)
    found = WhyNot(
        gpu=gpu,
        best=answer.best,
        plan=plan,
        is_winner=answer.winner is not None and answer.winner.offer.gpu == gpu,
        offer_count=sum(one.gpu == gpu for one in offers),
        left_out=tuple(one for one in answer.left_out if one.gpu == gpu),
        too_small=too_small,
    )
    if plan is None or found.is_winner:
        return found
    return _with_changes(found, plan, mine, answer.winner, reprice)


def _with_changes(
    found: WhyNot, plan: Plan, mine: Sequence[Plan], winner: Plan | None, reprice: Reprice
) -> WhyNot:
    def wins(changed: Plan | None) -> bool:
        if changed is None or not changed.is_within_limits:
            return False
        return winner is None or changed.weighed_usd.expected <= winner.weighed_usd.expected

    cheaper = crossing(lambda factor: wins(reprice(plan, price_factor=1 / factor)), 1.0, FACTOR_MAX)
    speedup = crossing(lambda factor: wins(reprice(plan, step_factor=1 / factor)), 1.0, FACTOR_MAX)
    scaling = _scaling(plan, mine)
    return WhyNot(
        gpu=found.gpu,
        best=found.best,
        plan=plan,
        is_winner=False,
        offer_count=found.offer_count,
        left_out=found.left_out,
        too_small=found.too_small,
        price_usd_per_hour=None if cheaper is None else plan.price_usd_per_hour / cheaper,
        speedup=speedup,
        speedup_of_interval=plan.step_time_s.expected / plan.step_time_s.low,
        scaling_fraction=scaling,
        scaling_needed_fraction=None if scaling is None or speedup is None else scaling * speedup,
    )


def _scaling(plan: Plan, mine: Sequence[Plan]) -> float | None:
    """Speed per device over that on the fewest devices of the GPU that carry a plan."""
    fewest = min(mine, key=lambda one: one.device_count)
    if fewest.device_count == plan.device_count:
        return None
    each, alone = (one.throughput_per_s.expected / one.device_count for one in (plan, fewest))
    return each / alone
