"""The catalog as the flags want it read: own tables, own prices, filters. Imports no optuna."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catalogs.gpus import Gpu, find_family, find_gpu, load_gpus
from catalogs.offers import Offer, apply_prices
from catalogs.sources.table import read_offers
from planner.cli_values import OfferFlags
from planner.commands.price_table import PriceTable, cheapest_regions, current_table
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.errors import PlannerError
from planner.filters import Filters
from planner.quantities import NotReadError, read_usd
from planner.reports import formats

CONFIDENCE_MIN = 0.5  # below it an interval would exclude the more likely half


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The catalog as the user wants it read."""

    offers: tuple[Offer, ...]  # every one, whatever the filters
    gpus: Mapping[str, Gpu]
    filters: Filters
    confidence: float
    assumptions: CostAssumptions
    refreshed: Path | None  # the table that `planner catalog refresh` wrote, where that one is used
    notes: tuple[str, ...]  # what a reader should know of where the prices are from

    @property
    def considered(self) -> tuple[Offer, ...]:
        """What plans are made of: of a refreshed table the cheapest regions, unless regions are asked for."""
        is_whole = self.refreshed is None or bool(self.filters.regions)
        return self.offers if is_whole else cheapest_regions(self.offers)

    @property
    def admitted(self) -> tuple[Offer, ...]:
        """Those of them that the filters let through."""
        return tuple(one for one in self.considered if self.filters.refusal(one) is None)


def read_prices(pricing: OfferFlags) -> Prices:
    """The tables, the user's own prices and filters. Raises CatalogError or PlannerError naming the flag."""
    gpus = load_gpus()
    table = (
        current_table(gpus)
        if pricing.catalog is None
        else PriceTable(offers=read_offers(pricing.catalog, gpus), refreshed=None)
    )
    offers, notes = _with_own_prices(table.offers, pricing.prices, gpus)
    _check_known("--provider", pricing.providers, {one.provider for one in offers})
    _check_known("--region", pricing.regions, {one.region for one in offers})
    if not CONFIDENCE_MIN <= pricing.confidence < 1:
        raise PlannerError(
            f"--confidence {pricing.confidence:g}: must be at least 0.5 and below 1, such as 0.9"
        )
    _check_data(pricing.assumptions)
    return Prices(
        offers=offers,
        gpus=gpus,
        filters=Filters(
            providers=frozenset(pricing.providers),
            regions=frozenset(pricing.regions),
            gpus=frozenset(find_gpu(one, gpus).name for one in pricing.gpus),
            is_spot=pricing.is_spot,
            is_reserved=pricing.is_reserved,
        ),
        confidence=pricing.confidence,
        assumptions=pricing.assumptions,
        refreshed=table.refreshed,
        notes=(*_provenance(table, pricing.regions), *notes),
    )


def _check_data(assumptions: CostAssumptions) -> None:
    stated = (("--data-from", assumptions.data_from), ("--egress-price", assumptions.egress_usd_per_gib))
    for flag, value in stated:
        if value is not None and assumptions.data_bytes is None:
            raise PlannerError(f"{flag} {value}: needs the size of the data set, --data-gib")


def _provenance(table: PriceTable, regions: tuple[str, ...]) -> tuple[str, ...]:
    if table.refreshed is None:
        return ()
    newest = max(one.as_of for one in table.offers)
    regions_note = "" if regions else "; of each instance type the cheapest region, --region names another"
    return (f"Prices refreshed, the newest from {newest}: {table.refreshed}{regions_note}",)


def _with_own_prices(
    offers: tuple[Offer, ...], prices: tuple[str, ...], gpus: Mapping[str, Gpu]
) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """The offers at the user's prices, and a note for each; one card in full goes before its family."""
    by_gpu: dict[str, float] = {}
    notes = []
    offered = {one.gpu for one in offers}
    priced = [_own_price(text, offered, gpus) for text in prices]
    for names, usd in sorted(priced, key=lambda one: -len(one[0])):
        by_gpu |= dict.fromkeys(names, usd)
        notes.append(f"Your price of {formats.usd_per_hour(usd)} for a GPU holds for {', '.join(names)}")
    return apply_prices(offers, by_gpu), tuple(notes)


def _own_price(text: str, offered: set[str], gpus: Mapping[str, Gpu]) -> tuple[tuple[str, ...], float]:
    """Catalog names and dollars per hour. A family means those of its members that somebody offers."""
    name, _, amount = text.partition("=")
    try:
        usd = read_usd(amount)
    except NotReadError:
        raise PlannerError(
            f"--price {text}: write the GPU and US dollars per GPU hour: H100=2.10, or H100-SXM5-80GB=2.10"
        ) from None
    family = tuple(one.name for one in find_family(name, gpus))
    if len(family) == 1:
        return family, usd
    found = tuple(one for one in family if one in offered)
    if not found:
        raise PlannerError(
            f"--price {text}: nobody in the catalog offers {' or '.join(family)}; write the name in full, "
            "and an offer of your own is made of it"
        )
    return found, usd


def _check_known(flag: str, given: tuple[str, ...], known: set[str]) -> None:
    for one in given:
        if one not in known:
            raise PlannerError(
                f"{flag} {one}: the catalog has no such offers; there are {', '.join(sorted(known))}"
            )
