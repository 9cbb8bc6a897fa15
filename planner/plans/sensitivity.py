"""Would another plan win if prices move, if the speed is at its low end, if the price is as old as it is?

Every plan is priced anew for each question, so that billing blocks, storage and limits count as they do in
the plan itself. Prices of one chip move together, on demand or on spot; so a rival in price is the best plan
on another chip, or under another kind of price. Predictions for one chip share their error; so a rival in
speed is on another chip, or was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Protocol

from catalogs.offers import STALE_AFTER, Offer
from catalogs.refresh import is_stale
from planner.estimate.values import Basis
from planner.plans.plan import Plan
from planner.plans.winner import winner_of

PRICE_MOVE_FRACTION = 0.10
"""By which prices are moved; and what a price is taken to drift for every period after which it counts as old
(30 days, a day on spot), up to half. Our assumption."""

DRIFT_MAX_FRACTION = 0.5
FACTOR_MAX = 100.0  # beyond it a change is not worth a number
_HALVINGS = 30


class WhatIf(StrEnum):
    """What is moved."""

    PRICE_UP = "the winner's price up"
    RIVALS_DOWN = "other prices down"
    SPEED_LOW = "the winner's speed at its low end"
    PRICE_AGE = "the winner's price as old as it is"


class Reprice(Protocol):
    """A plan at another price or speed; None where the run would never end."""

    def __call__(self, plan: Plan, *, price_factor: float = 1.0, step_factor: float = 1.0) -> Plan | None:
        """Its price times ``price_factor``, its step time times ``step_factor``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One question and its answer."""

    change: WhatIf
    moved_fraction: float  # how far: 0.1 is 10% of the price, 0.25 a step that takes 25% longer
    is_flipped: bool  # the winner would be another, or outside a limit
    rival: Plan | None  # the best other choice then; None where there is none
    flip_fraction: float | None  # the least move that makes it win; None where none does, or it is not asked
    age_days: int | None = None  # of the price, for PRICE_AGE


def sensitivities(
    ranked: Sequence[Plan], winner: Plan, reprice: Reprice, today: date
) -> tuple[Sensitivity, ...]:
    """Every question that can be asked of ``winner``, in a fixed order."""
    best = _best_of_each_kind(ranked)
    others = [one for one in best if _market(one) != _market(winner)]
    dearer = _dearer(winner, _first_within(others), reprice)
    found = [dearer, _others_cheaper(winner, others, reprice)]
    slower = _first_within([one for one in best if not _shares_error(one, winner)])
    found.append(_slower(winner, slower, reprice))
    if is_stale(winner.offer, today):
        found.append(_aged(dearer, winner, today))
    return tuple(found)


def price_drift_fraction(offer: Offer, today: date) -> float:
    """How far a price of that age is taken to have moved, as a share of it."""
    age = today - offer.as_of
    return min(DRIFT_MAX_FRACTION, PRICE_MOVE_FRACTION * (age / STALE_AFTER[offer.pricing]))


def crossing(is_past: Callable[[float], bool], start: float, end: float) -> float | None:
    """Where between ``start`` and ``end`` a condition that stays true once it is so becomes true, or None."""
    if not is_past(end):
        return None
    inside, past = start, end
    for _ in range(_HALVINGS):
        middle = (inside * past) ** 0.5
        inside, past = (inside, middle) if is_past(middle) else (middle, past)
    return past


def _best_of_each_kind(ranked: Sequence[Plan]) -> list[Plan]:
    """Of what moves together, in the order of the ranking: within the limits, and of all."""
    best: dict[Hashable, Plan] = {}
    for plan in ranked:
        best.setdefault((_market(plan), plan.basis is Basis.MEASURED, plan.is_within_limits), plan)
    return list(best.values())


def _market(plan: Plan) -> Hashable:
    return plan.offer.gpu, plan.offer.pricing


def _shares_error(one: Plan, winner: Plan) -> bool:
    is_either_measured = Basis.MEASURED in {one.basis, winner.basis}
    return one.config == winner.config or (one.offer.gpu == winner.offer.gpu and not is_either_measured)


def _first_within(plans: Sequence[Plan]) -> Plan | None:
    return next((one for one in plans if one.is_within_limits), None)


def _dearer(winner: Plan, rival: Plan | None, reprice: Reprice) -> Sensitivity:
    def is_lost(factor: float) -> bool:
        return _is_lost(reprice(winner, price_factor=factor), rival)

    flip = crossing(is_lost, 1.0, FACTOR_MAX)
    return Sensitivity(
        change=WhatIf.PRICE_UP,
        moved_fraction=PRICE_MOVE_FRACTION,
        is_flipped=is_lost(1 + PRICE_MOVE_FRACTION),
        rival=rival,
        flip_fraction=None if flip is None else flip - 1,
    )


def _others_cheaper(winner: Plan, others: Sequence[Plan], reprice: Reprice) -> Sensitivity:
    cheaper = [reprice(one, price_factor=1 - PRICE_MOVE_FRACTION) for one in others]
    fitting = [one for one in cheaper if one is not None and one.is_within_limits]
    best = min(fitting, key=lambda one: one.weighed_usd.expected, default=None)
    rival = next((one for one in others if best is not None and one.rank == best.rank), None)
    return Sensitivity(
        change=WhatIf.RIVALS_DOWN,
        moved_fraction=PRICE_MOVE_FRACTION,
        is_flipped=best is not None and best.weighed_usd.expected < winner.weighed_usd.expected,
        rival=rival,
        flip_fraction=None,
    )


def _slower(winner: Plan, rival: Plan | None, reprice: Reprice) -> Sensitivity:
    """The limits are kept at the low end already: that is how the winner was chosen."""
    step = winner.step_time_s

    def is_lost(factor: float) -> bool:
        slower = reprice(winner, step_factor=factor)
        return slower is None or (
            rival is not None and slower.weighed_usd.expected > rival.weighed_usd.expected
        )

    flip = crossing(is_lost, 1.0, FACTOR_MAX)
    return Sensitivity(
        change=WhatIf.SPEED_LOW,
        moved_fraction=step.high / step.expected - 1,
        is_flipped=is_lost(step.high / step.expected),
        rival=rival,
        flip_fraction=None if flip is None else flip - 1,
    )


def _aged(dearer: Sensitivity, winner: Plan, today: date) -> Sensitivity:
    drift = price_drift_fraction(winner.offer, today)
    return Sensitivity(
        change=WhatIf.PRICE_AGE,
        moved_fraction=drift,
        is_flipped=dearer.flip_fraction is not None and dearer.flip_fraction <= drift,
        rival=dearer.rival,
        flip_fraction=dearer.flip_fraction,
        age_days=(today - winner.offer.as_of).days,
    )


def _is_lost(changed: Plan | None, rival: Plan | None) -> bool:
    """Whether the changed winner is outside a limit, or dearer than the rival and no tie with it."""
    if changed is None or not changed.is_within_limits:
        return True
    is_dearer = rival is not None and rival.weighed_usd.expected < changed.weighed_usd.expected
    return rival is not None and is_dearer and winner_of([rival, changed]) is rival
