"""What a run costs beside the rent: moving and keeping its data and its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from catalogs.egress import Destination, EgressPrice, destination_of, find_egress
from catalogs.gpus import GIB
from catalogs.offers import Offer
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.cost.defaults import STORAGE_USD_PER_GIB_MONTH
from planner.cost.hours import SECONDS_PER_HOUR, CostTerm
from planner.estimate.values import Estimate

SECONDS_PER_MONTH = 730 * SECONDS_PER_HOUR


def transfer_term(
    offer: Offer, parameters: CostAssumptions, egress: Sequence[EgressPrice]
) -> CostTerm | None:
    """Moving the data set to the instances, at each start; None where it is free or its price unknown."""
    if parameters.data_bytes is None:
        return None
    size_bytes = round(parameters.data_bytes * parameters.transfer_count)
    times = f" x {parameters.transfer_count:.2f} starts" if parameters.transfer_count != 1 else ""
    stated = parameters.egress_usd_per_gib
    if stated is not None:
        usd, price_text = size_bytes / GIB * stated, f"{stated:g} USD per GiB; price: stated by you"
    else:
        price = _egress_price(offer, parameters, egress)
        if price is None:
            return None
        usd = price.usd(size_bytes)
        way = f"{price.provider} to {price.destination}"
        price_text = f"egress price of {way}, less the free allowance; {price.source}"
    if usd == 0:
        return None
    return CostTerm.fixed("data transfer", usd, f"size of the data set{times} x {price_text}")


def storage_terms(held_s: Estimate, parameters: CostAssumptions) -> list[CostTerm]:
    """Keeping the data set and the checkpoints for as long as the instances are held."""
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
            found.append(CostTerm.of(name, usd, formula))
    return found


def not_counted(offer: Offer, parameters: CostAssumptions, egress: Sequence[EgressPrice]) -> tuple[str, ...]:
    """In words what the bill leaves out, since it is not known."""
    missing = []
    if parameters.data_bytes is None:
        missing.append("data set: its size is not known, so neither transfer nor storage is charged")
    elif (
        parameters.data_provider
        and parameters.egress_usd_per_gib is None
        and _egress_price(offer, parameters, egress) is None
    ):
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


def _egress_price(
    offer: Offer, parameters: CostAssumptions, egress: Sequence[EgressPrice]
) -> EgressPrice | None:
    if parameters.data_provider is None:
        return None
    return find_egress(egress, parameters.data_provider, _destination(offer, parameters))


def _destination(offer: Offer, parameters: CostAssumptions) -> Destination:
    assert parameters.data_provider is not None
    return destination_of(parameters.data_provider, parameters.data_region, offer.provider, offer.region)
