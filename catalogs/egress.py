"""What a provider charges for data that leaves it: the egress columns of providers.csv.

Coming in is free everywhere. Prices are US dollars per GiB for the provider's regions in North America and
Europe; others cost more. A cell is one price, or tiers such as "0.09; 0.085 above 10240": what each byte
above so many GiB of a month costs. Transfers of one month share the free allowance and cheaper tiers: here a
transfer is priced as if it were the only one. An empty cell is unknown, not free.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from catalogs.gpus import GIB
from catalogs.rows import CsvRow

EGRESS_COLUMNS = (
    *("egress_internet_usd_per_gib", "egress_other_region_usd_per_gib", "egress_same_region_usd_per_gib"),
    *("egress_free_gib_per_month", "egress_source", "egress_as_of"),
)
_TIER = re.compile(r"(\d+(?:\.\d+)?)(?: above (\d+))?")


class Destination(StrEnum):
    """Where data goes, as the provider that it leaves sees it."""

    SAME_REGION = "same region"
    OTHER_REGION = "other region"  # of the same provider
    INTERNET = "internet"  # and any other provider


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressTier:
    """What each byte above ``above_bytes`` of a month costs, up to the next tier."""

    above_bytes: int
    usd_per_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPrice:
    """What one provider asks for data on its way to one kind of destination."""

    provider: str
    destination: Destination
    tiers: tuple[EgressTier, ...]  # lowest first
    free_bytes_per_month: int
    source: str
    as_of: date

    def usd(self, transfer_bytes: int) -> float:
        """Dollars for one transfer; the first bytes, as many as the allowance has, are free."""
        ends = [tier.above_bytes for tier in self.tiers[1:]]
        total_usd = 0.0
        for tier, end in zip(self.tiers, [*ends, max(transfer_bytes, *ends, 0)], strict=True):
            begin = max(tier.above_bytes, self.free_bytes_per_month)
            total_usd += max(0, min(transfer_bytes, end) - begin) / GIB * tier.usd_per_gib
        return total_usd


def egress_prices(row: CsvRow, provider: str) -> tuple[EgressPrice, ...]:
    """The prices in a row of providers.csv, one for each destination; CatalogError names line and field."""
    free_gib = row.optional_number("egress_free_gib_per_month") or 0.0
    prices = []
    for destination in Destination:
        field = f"egress_{destination.value.replace(' ', '_')}_usd_per_gib"
        if row.optional_text(field) is not None:
            allowance = int(free_gib * GIB) if destination is Destination.INTERNET else 0
            prices.append(
                EgressPrice(
                    provider=provider,
                    destination=destination,
                    tiers=_tiers(row, field),
                    free_bytes_per_month=allowance,
                    source=row.text("egress_source"),
                    as_of=row.day("egress_as_of"),
                )
            )
    return tuple(prices)


def find_egress(prices: Iterable[EgressPrice], provider: str, destination: Destination) -> EgressPrice | None:
    """The price of one provider for one destination; None where the table has none."""
    matching = (
        price for price in prices if price.provider == provider.lower() and price.destination is destination
    )
    return next(matching, None)


def destination_of(data_provider: str, data_region: str | None, provider: str, region: str) -> Destination:
    """Where data goes when it lies at one place and the instances at another.

    The same provider in an unknown region is taken as another region, the dearer of the two.
    """
    if data_provider.lower() != provider.lower():
        return Destination.INTERNET
    if data_region is not None and data_region.lower() == region.lower():
        return Destination.SAME_REGION
    return Destination.OTHER_REGION


def _tiers(row: CsvRow, field: str) -> tuple[EgressTier, ...]:
    tiers: list[EgressTier] = []
    for text in row.text(field).split(";"):
        matched = _TIER.fullmatch(text.strip())
        above_bytes = int(matched[2] or 0) * GIB if matched else 0
        expected = tiers[-1].above_bytes + 1 if tiers else 0
        if matched is None or above_bytes < expected or (not tiers and above_bytes):
            raise row.fail(field, "dollars per GiB, or rising tiers such as 0.09; 0.085 above 10240")
        tiers.append(EgressTier(above_bytes=above_bytes, usd_per_gib=float(matched[1])))
    return tuple(tiers)
