"""The catalog as the flags want it read: own tables, own prices, filters. Imports no optuna."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalogs.gpus import Gpu, find_gpu, load_gpus
from catalogs.offers import Offer, apply_prices, load_offers
from catalogs.sources.table import read_offers
from planner.errors import PlannerError
from planner.filters import Filters
from planner.options import Pricing

CONFIDENCE_MIN = 0.5  # below it an interval would exclude the more likely half


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The catalog as the user wants it read."""

    offers: tuple[Offer, ...]
    gpus: Mapping[str, Gpu]
    filters: Filters
    confidence: float
    provisioning_s: float

    @property
    def admitted(self) -> tuple[Offer, ...]:
        """The offers that the filters let through."""
        return tuple(one for one in self.offers if self.filters.refusal(one) is None)


def read_prices(pricing: Pricing) -> Prices:
    """The tables, the user's own prices and filters. Raises CatalogError or PlannerError naming the flag."""
    gpus = load_gpus()
    offers = load_offers() if pricing.catalog is None else read_offers(pricing.catalog)
    offers = apply_prices(offers, dict(_price(one, gpus) for one in pricing.prices))
    _check_known("--provider", pricing.providers, {one.provider for one in offers})
    _check_known("--region", pricing.regions, {one.region for one in offers})
    if not CONFIDENCE_MIN <= pricing.confidence < 1:
        raise PlannerError(
            f"--confidence {pricing.confidence:g}: must be at least 0.5 and below 1, such as 0.9"
        )
    if not 0 <= pricing.provisioning_s < float("inf"):
        raise PlannerError("--provisioning-minutes: must be zero or more")
    return Prices(
        offers=offers,
        gpus=gpus,
        filters=Filters(
            providers=frozenset(pricing.providers),
            regions=frozenset(pricing.regions),
            gpus=frozenset(find_gpu(one, gpus).name for one in pricing.gpus),
            is_spot=pricing.is_spot,
        ),
        confidence=pricing.confidence,
        provisioning_s=pricing.provisioning_s,
    )


def _price(text: str, gpus: Mapping[str, Gpu]) -> tuple[str, float]:
    name, equals, amount = text.partition("=")
    try:
        usd = float(amount)
    except ValueError:
        usd = -1.0
    if not equals or not 0 < usd < float("inf"):
        raise PlannerError(f"--price {text}: write the GPU and US dollars per GPU hour: H100-SXM5-80GB=2.10")
    return find_gpu(name, gpus).name, usd


def _check_known(flag: str, given: tuple[str, ...], known: set[str]) -> None:
    for one in given:
        if one not in known:
            raise PlannerError(
                f"{flag} {one}: the catalog has no such offers; there are {', '.join(sorted(known))}"
            )
