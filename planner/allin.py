"""The whole bill of a run: what comes to the rent for useful steps, each as a term with formula and source.

The instances are held from the request until the end:

    held = provisioning + set-up + compile and warm-up + steps + evaluations + checkpoint pauses

and rented for that time, rounded up to the provider's billing increment. Transfer of the data set, storage
and the sweep come on top. What is not known is not charged, and `AllInBill.not_counted` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalogs.egress import Destination, EgressPrice, destination_of, find_egress
from catalogs.gpus import GIB
from catalogs.offers import Offer
from planner.allin_parameters import STORAGE_USD_PER_GIB_MONTH, AllIn
from planner.cost import (
    SECONDS_PER_HOUR,
    Breakdown,
    CostTerm,
    billed_s,
    hourly_usd,
    sweep_term,
)
from planner.estimate.values import Estimate

SECONDS_PER_MONTH = 730 * SECONDS_PER_HOUR

__all__ = ["AllIn", "AllInBill", "all_in_bill", "bill_of", "rent_terms"]


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
    parameters: AllIn,
    egress: Sequence[EgressPrice] = (),
) -> AllInBill:
    """The bill of ``training_s`` of steps on ``instance_count`` instances of ``offer``.

    With parameters that only have ``provisioning_s``, the total is that of `planner.cost.run_cost`.
    """
    rent = rent_terms(offer, instance_count, training_s, parameters)
    return bill_of(offer, rent, _each(training_s, parameters.held_s), parameters, egress)


def bill_of(
    offer: Offer,
    rent: Sequence[CostTerm],
    held_s: Estimate,
    parameters: AllIn,
    egress: Sequence[EgressPrice] = (),
) -> AllInBill:
    """The bill with a rent from elsewhere: of spot instances it is `SpotOutcome.terms` of planner.spot."""
    transfer = _transfer_term(offer, parameters, egress)
    sweep = None if parameters.sweep_usd is None else sweep_term(parameters.sweep_usd)
    rest = [
        *([transfer] if transfer else ()),
        *_storage_terms(held_s, parameters),
        *([sweep] if sweep else ()),
    ]
    return AllInBill(
        breakdown=Breakdown(terms=(*rent, *rest), basis=held_s.basis),
        held_s=held_s,
        not_counted=_not_counted(offer, parameters, egress),
    )


def rent_terms(
    offer: Offer, instance_count: int, training_s: Estimate, parameters: AllIn
) -> tuple[CostTerm, ...]:
    """The rent by what the instances do, and what started blocks add to it. Zero terms are left out."""
    usd_per_s = hourly_usd(offer, instance_count) / SECONDS_PER_HOUR
    rate = "x price x instances"
    source = f"price: {offer.source}, {offer.as_of}"

    def evaluations_s(training: float) -> float:
        return parameters.evaluation_count(training) * parameters.evaluation_s

    def checkpoints_s(training: float) -> float:
        return parameters.checkpoint_count(training) * parameters.checkpoint_stall_s

    def rounding_s(training: float) -> float:
        held_s = parameters.held_s(training)
        return billed_s(offer, held_s) - held_s

    parts: tuple[tuple[str, Callable[[float], float], str], ...] = (
        ("provisioning", lambda _: parameters.provisioning_s, f"boot, driver and image {rate}; {source}"),
        ("set-up", lambda _: parameters.set_up_s, f"packages, data and joining {rate}; stated by you"),
        ("compile", lambda _: parameters.compile_s, f"compilation {rate}; measured in a trial"),
        ("warm-up", lambda _: parameters.warm_up_s, f"what first steps take longer {rate}; measured"),
        ("training", lambda training: training, f"steps x step time {rate}; {source}"),
        ("evaluation", evaluations_s, f"evaluations x time of one {rate}; stated by you"),
        ("checkpoints", checkpoints_s, f"saves x stall of one {rate}; measured in a trial"),
        (
            "minimum billing unit",
            rounding_s,
            f"what is missing to whole blocks of {offer.billing_increment_s} s {rate}; {source}",
        ),
    )
    terms = (_term(name, _each(training_s, part).scaled(usd_per_s), text) for name, part, text in parts)
    return tuple(one for one in terms if any((one.low_usd, one.expected_usd, one.high_usd)))


def _transfer_term(offer: Offer, parameters: AllIn, egress: Sequence[EgressPrice]) -> CostTerm | None:
    price = _egress_price(offer, parameters, egress)
    if price is None or parameters.data_bytes is None:
        return None
    usd = price.usd(parameters.data_bytes * parameters.transfer_count)
    if usd == 0:
        return None
    times = f" x {parameters.transfer_count}" if parameters.transfer_count != 1 else ""
    formula = f"size of the data set{times} x egress price of {price.provider} to {price.destination}"
    return _fixed_term("data transfer", usd, f"{formula}, less the free allowance; {price.source}")


def _storage_terms(held_s: Estimate, parameters: AllIn) -> list[CostTerm]:
    price = parameters.storage_usd_per_gib_month
    if not price:
        return []
    months = held_s.scaled(1 / SECONDS_PER_MONTH)
    kept_bytes = (parameters.checkpoint_bytes or 0) * parameters.checkpoints_kept
    source = "S3 Standard" if price == STORAGE_USD_PER_GIB_MONTH else "stated by you"
    found = []
    for name, size_bytes, what in (
        ("data storage", parameters.data_bytes or 0, "size of the data set"),
        ("checkpoint storage", kept_bytes, f"size of {parameters.checkpoints_kept} checkpoints"),
    ):
        if size_bytes:
            usd = months.scaled(size_bytes / GIB * price)
            formula = f"{what} x {price:g} USD per GiB-month x time held; price: {source}"
            found.append(_term(name, usd, formula))
    return found


def _not_counted(offer: Offer, parameters: AllIn, egress: Sequence[EgressPrice]) -> tuple[str, ...]:
    missing = []
    if parameters.data_bytes is None:
        missing.append("data set: its size is not known, so neither transfer nor storage is charged")
    elif parameters.data_provider and _egress_price(offer, parameters, egress) is None:
        missing.append(
            f"data transfer: no egress price of {parameters.data_provider} "
            f"to {_destination(offer, parameters)} is known"
        )
    if parameters.checkpoint_bytes is None:
        missing.append("checkpoint storage: the size of a checkpoint is not known")
    if parameters.set_up_s == 0:
        missing.append("set-up: no time for packages and data is known")
    if parameters.sweep_usd is None:
        missing.append("sweep: its devices have no price")
    return tuple(missing)


def _egress_price(offer: Offer, parameters: AllIn, egress: Sequence[EgressPrice]) -> EgressPrice | None:
    if parameters.data_provider is None:
        return None
    return find_egress(egress, parameters.data_provider, _destination(offer, parameters))


def _destination(offer: Offer, parameters: AllIn) -> Destination:
    assert parameters.data_provider is not None
    return destination_of(parameters.data_provider, parameters.data_region, offer.provider, offer.region)


def _term(name: str, usd: Estimate, formula: str) -> CostTerm:
    return CostTerm(name=name, low_usd=usd.low, expected_usd=usd.expected, high_usd=usd.high, formula=formula)


def _fixed_term(name: str, usd: float, formula: str) -> CostTerm:
    return CostTerm(name=name, low_usd=usd, expected_usd=usd, high_usd=usd, formula=formula)


def _each(estimate: Estimate, formula: Callable[[float], float]) -> Estimate:
    return Estimate(
        low=formula(estimate.low),
        expected=formula(estimate.expected),
        high=formula(estimate.high),
        basis=estimate.basis,
    )
