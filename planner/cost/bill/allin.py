"""The whole bill of a run: what comes to the rent for useful steps, each as a term with formula and source.

The instances are held from the request until the end:

    held = provisioning + set-up + start-up + compilation + steps + evaluations + checkpoint pauses

and rented for that time, rounded up to the provider's billing increment; on spot what interruptions destroy
comes to it (`interrupted_terms`). Transfer of the data set, storage and the sweep come on top. What is
not known is not charged, and `AllInBill.not_counted` names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalogs.egress import EgressPrice
from catalogs.offers import Offer
from planner.cost.bill.ancillary_costs import not_counted, storage_terms, transfer_term
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.cost.hours import (
    SECONDS_PER_HOUR,
    Breakdown,
    CostTerm,
    billed_s,
    hourly_usd,
    sweep_term,
)
from planner.estimate.values import Estimate

_RATE = "x price x instances"
_ROUNDING_ERROR_FRACTION = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class AllInBill:
    """The breakdown, how long the instances are held, and in words what the total leaves out."""

    breakdown: Breakdown
    held_s: Estimate
    not_counted: tuple[str, ...]


def all_in_bill(
    offer: Offer,
    instance_count: int,
    training_s: Estimate,
    parameters: CostAssumptions,
    egress: Sequence[EgressPrice] = (),
) -> AllInBill:
    """The bill, in dollars, of ``training_s`` seconds of steps on ``instance_count`` instances of ``offer``.

    ``egress`` prices the way of the data set; without a price for it the bill names it as not counted.
    """
    rent = rent_terms(offer, instance_count, training_s, parameters)
    return bill_of(offer, rent, _each(training_s, parameters.held_s), parameters, egress)


def bill_of(
    offer: Offer,
    rent: Sequence[CostTerm],
    held_s: Estimate,
    parameters: CostAssumptions,
    egress: Sequence[EgressPrice] = (),
) -> AllInBill:
    """The bill with a rent that was made elsewhere, such as by `interrupted_terms`.

    ``held_s`` is how long, in seconds, data and checkpoints are kept, which is as long as the instances are
    held.
    """
    transfer = transfer_term(offer, parameters, egress)
    sweep = None if parameters.sweep_usd is None else sweep_term(parameters.sweep_usd)
    rest = [
        *([transfer] if transfer else ()),
        *storage_terms(held_s, parameters),
        *(_charged(sweep) if sweep else ()),
    ]
    return AllInBill(
        breakdown=Breakdown(terms=(*rent, *rest), basis=held_s.basis),
        held_s=held_s,
        not_counted=not_counted(offer, parameters, egress),
    )


def rent_terms(
    offer: Offer, instance_count: int, training_s: Estimate, parameters: CostAssumptions
) -> tuple[CostTerm, ...]:
    """The rent by what the instances do, and what started blocks add to it. Zero terms are left out."""

    def rounding_s(training: float) -> float:
        held_s = parameters.held_s(training)
        return billed_s(offer, held_s) - held_s

    undisturbed = undisturbed_terms(offer, instance_count, training_s, parameters)
    usd = _each(training_s, rounding_s).scaled(hourly_usd(offer, instance_count) / SECONDS_PER_HOUR)
    rounding = CostTerm.of(
        "minimum billing unit",
        usd,
        f"what is missing to whole blocks of {offer.billing_increment_s} s {_RATE}",
    )
    return (*undisturbed, *_charged(rounding))


def undisturbed_terms(
    offer: Offer, instance_count: int, training_s: Estimate, parameters: CostAssumptions
) -> tuple[CostTerm, ...]:
    """The rent of a run that nothing interrupts, second by second. Zero terms are left out."""
    usd_per_s = hourly_usd(offer, instance_count) / SECONDS_PER_HOUR
    saves_usd = _each(
        training_s, lambda one: parameters.checkpoint_count(one) * parameters.checkpoint_stall_s
    ).scaled(usd_per_s)
    parts = (
        ("provisioning", parameters.provisioning_s, f"boot, driver and image {_RATE}; assumed unless stated"),
        ("set-up", parameters.set_up_s, f"packages, data and joining {_RATE}; stated by you"),
        ("start-up", parameters.start_up_s, f"building model, data and wrapper {_RATE}; measured in trials"),
        (
            "compilation",
            parameters.compile_s,
            f"what the first step takes longer {_RATE}; measured in trials",
        ),
        ("evaluation", parameters.evaluation_s, f"all evaluations together {_RATE}; stated by you"),
    )
    fixed = {name: CostTerm.fixed(name, seconds * usd_per_s, text) for name, seconds, text in parts}
    price = f"price: {offer.source}, {offer.as_of}"
    training = CostTerm.of("training", training_s.scaled(usd_per_s), f"steps x step time {_RATE}; {price}")
    saves_formula = f"saves x stall of one {_RATE}; {parameters.checkpoint_source}"
    saves = CostTerm.of("checkpoints", saves_usd, saves_formula)
    evaluation = fixed.pop("evaluation")
    return _charged(*fixed.values(), training, evaluation, saves)


def interrupted_terms(
    offer: Offer,
    instance_count: int,
    training_s: Estimate,
    parameters: CostAssumptions,
    rent_usd: Estimate,
    rounding_s: float,
) -> tuple[CostTerm, ...]:
    """The terms of a rent on spot, which add up to ``rent_usd``: undisturbed, started blocks, interruptions.

    Args:
        offer: the spot instance.
        instance_count: of them.
        training_s: of steps.
        parameters: with the checkpoint interval of the plan.
        rent_usd: expected, and at the low and high end, with everything in it.
        rounding_s: mean seconds that started blocks add, over all starts of the instances.
    """
    steady = undisturbed_terms(offer, instance_count, training_s, parameters)
    rounding_usd = rounding_s * hourly_usd(offer, instance_count) / SECONDS_PER_HOUR
    rounding = CostTerm.fixed(
        "minimum billing unit",
        rounding_usd,
        f"half a block of {offer.billing_increment_s} s for each start, on average, {_RATE}",
    )
    known = (*steady, rounding)
    lost = CostTerm(
        name="interruptions",
        low_usd=_rest(rent_usd.low, math.fsum(term.low_usd for term in known)),
        expected_usd=_rest(rent_usd.expected, math.fsum(term.expected_usd for term in known)),
        high_usd=_rest(rent_usd.high, math.fsum(term.high_usd for term in known)),
        formula=f"restarts and work done twice (Daly 2006) {_RATE}; interval: the luck of interruptions",
    )
    return (*steady, *_charged(rounding, lost))


def _rest(whole: float, known: float) -> float:
    """What is left; not less than nothing, which the grid of the distribution may make of it."""
    rest = whole - known
    return rest if rest > _ROUNDING_ERROR_FRACTION * whole else 0.0


def _charged(*terms: CostTerm) -> tuple[CostTerm, ...]:
    return tuple(term for term in terms if not term.is_zero)


def _each(estimate: Estimate, formula: Callable[[float], float]) -> Estimate:
    return Estimate(
        low=formula(estimate.low),
        expected=formula(estimate.expected),
        high=formula(estimate.high),
        basis=estimate.basis,
    )
