"""Which plan is recommended: the cheapest, but of plans that cannot be told apart in cost the fastest."""

from __future__ import annotations

from collections.abc import Sequence

from planner.estimate.values import Basis
from planner.plans.plan import Plan, is_tied
from planner.plans.ties import NEGLIGIBLE_FRACTION

TIE_EXTRA_FRACTION = 0.10
"""That a plan may be expected to cost more and still count as a tie: about what a price moves in a month.
Wide intervals alone would let a plan that is half as dear again win by its speed."""


def winner_of(ranked: Sequence[Plan]) -> Plan | None:
    """The plan to recommend of those that keep the limits, cheapest first; None of none.

    Of what ties with the cheapest the fastest wins, then the better measured, then the fresher price.
    """
    if not ranked:
        return None
    cheapest = ranked[0]
    tied = [one for one in ranked if one is cheapest or _is_as_good(one, cheapest)]
    fastest_s = min(one.duration_s.expected for one in tied)
    as_fast = [one for one in tied if one.duration_s.expected <= fastest_s * (1 + NEGLIGIBLE_FRACTION)]
    strength = list(Basis)
    return min(
        as_fast,
        key=lambda one: (strength.index(one.basis), -one.offer.as_of.toordinal(), one.weighed_usd.expected),
    )


def _is_as_good(one: Plan, cheaper: Plan) -> bool:
    """Whether a plan ties with a cheaper one: their costs cannot be told apart, and its speed makes up.

    What costs more than a negligible share more must be faster by at least that share. Where the user says
    what an hour is worth, that decides, and nothing ties.
    """
    if one.weighed_usd != one.cost_usd:
        return False
    extra = one.cost_usd.expected / cheaper.cost_usd.expected
    gain = cheaper.duration_s.expected / one.duration_s.expected
    most = min(1 + TIE_EXTRA_FRACTION, max(gain, 1 + NEGLIGIBLE_FRACTION))
    return extra <= most and is_tied(one, cheaper)
