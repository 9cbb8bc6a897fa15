"""What a provider charges for data that leaves it: egress.csv.

Coming in is free everywhere. Prices are for the provider's regions in North America and Europe; others cost
more. Transfers of one month share a free allowance and cheaper tiers: here a transfer is priced as if it were
the only one. ``as_of`` is the day the source was read, of an undated one the first day of the year that it
speaks of. A provider without a row is unknown, not free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from importlib import resources

from catalogs.gpus import GIB
from catalogs.rows import Row, read_rows

COLUMNS = (
    *("provider", "destination", "above_gib", "usd_per_gib", "free_gib_per_month"),
    *("source", "as_of"),
)


class Destination(StrEnum):
    """Where data goes, as the provider that it leaves sees it."""

    SAME_REGION = "same region"
    OTHER_REGION = "other region"  # of the same provider
    INTERNET = "internet"  # and any other provider


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressTier:
    """One row: what each byte above ``above_bytes`` of a month costs, up to the next tier."""

    above_bytes: int
    usd_per_gib: float
    free_bytes_per_month: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPrice:
    """What one provider asks for data on its way to one kind of destination."""

    provider: str
    destination: Destination
    tiers: tuple[EgressTier, ...]  # lowest first
    source: str
    as_of: date  # of the oldest of the rows

    def usd(self, transfer_bytes: int) -> float:
        """Dollars for one transfer; the first bytes, as many as the allowance has, are free."""
        free_bytes = max(one.free_bytes_per_month for one in self.tiers)
        ends = [one.above_bytes for one in self.tiers[1:]]
        total_usd = 0.0
        for tier, end in zip(self.tiers, [*ends, max(transfer_bytes, *ends, 0)], strict=True):
            begin = max(tier.above_bytes, free_bytes)
            total_usd += max(0, min(transfer_bytes, end) - begin) / GIB * tier.usd_per_gib
        return total_usd


def load_egress() -> tuple[EgressPrice, ...]:
    """The shipped table."""
    text = resources.files("catalogs").joinpath("egress.csv").read_text(encoding="utf-8")
    return parse_egress(text.splitlines(), "egress.csv")


def parse_egress(lines: Iterable[str], file: str) -> tuple[EgressPrice, ...]:
    """Prices from a CSV with the columns of egress.csv; CatalogError names file, line and field."""
    groups: dict[tuple[str, Destination], list[tuple[Row, EgressTier]]] = {}
    for row in read_rows(lines, file, COLUMNS, COLUMNS):
        key = row.text("provider").lower(), row.choice("destination", Destination)
        rows = groups.setdefault(key, [])
        tier = _tier(row)
        expected = 0 if not rows else rows[-1][1].above_bytes + 1
        if (not rows and tier.above_bytes) or tier.above_bytes < expected:
            raise row.fail("above_gib", "0 in the first row of a price and rising in those after it")
        rows.append((row, tier))
    return tuple(
        EgressPrice(
            provider=provider,
            destination=destination,
            tiers=tuple(tier for _, tier in rows),
            source=rows[0][0].text("source"),
            as_of=min(_day(row) for row, _ in rows),
        )
        for (provider, destination), rows in groups.items()
    )


def find_egress(prices: Iterable[EgressPrice], provider: str, destination: Destination) -> EgressPrice | None:
    """The price of one provider for one destination; None where the table has none."""
    matching = (one for one in prices if one.provider == provider.lower() and one.destination is destination)
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


def _tier(row: Row) -> EgressTier:
    return EgressTier(
        above_bytes=int(_zero_or_more(row, "above_gib") * GIB),
        usd_per_gib=_zero_or_more(row, "usd_per_gib"),
        free_bytes_per_month=int((row.optional_number("free_gib_per_month") or 0.0) * GIB),
    )


def _zero_or_more(row: Row, field: str) -> float:
    """A number that may be zero, which `Row.number` does not take."""
    return 0.0 if row.text(field) in ("0", "0.0") else row.number(field)


def _day(row: Row) -> date:
    day = row.optional_day("as_of")
    if day is None:
        raise row.fail("as_of", "a date such as 2026-11-21: it must not be empty")
    return day
