"""What the user is willing to rent."""

from __future__ import annotations

from dataclasses import dataclass

from catalogs.history import PricePoint
from catalogs.offers import Offer, Pricing


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What may be rented; an empty set is no restriction. GPUs are catalog names."""

    providers: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    gpus: frozenset[str] = frozenset()
    is_spot: bool | None = None  # True: spot only; False: no spot; None: both
    is_reserved: bool = False  # reserved prices too, which only those who have committed pay

    def refusal(self, offer: Offer | PricePoint) -> str | None:
        """Why ``offer`` is not considered; None when it is."""
        if self.providers and offer.provider not in self.providers:
            return "from a provider that was not asked for"
        if self.regions and offer.region not in self.regions:
            return "in a region that was not asked for"
        if self.gpus and offer.gpu not in self.gpus:
            return "with a device that was not asked for"
        if offer.pricing is Pricing.RESERVED and not self.is_reserved:
            return "reserved, which was not asked for"
        is_spot = offer.pricing is Pricing.SPOT
        if self.is_spot is not None and is_spot is not self.is_spot:
            return "spot, which was ruled out" if is_spot else "not spot, which alone was asked for"
        return None
