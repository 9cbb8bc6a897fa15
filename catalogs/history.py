"""Prices as they were: every change that a refresh saw, in one SQLite file to which rows are only ever added.

A row is one offer's price from a day on, until the offer's next row; no price at all means that the
provider's list no longer had it. SQLite keeps two refreshes at a time apart, and of one that is killed
nothing or all.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from catalogs.errors import CatalogError
from catalogs.offers import Offer, Pricing

BUSY_S = 30.0  # another refresh holds the file for as long as it writes
_TABLES = """
CREATE TABLE IF NOT EXISTS offer (
    id INTEGER PRIMARY KEY, provider TEXT NOT NULL, instance_type TEXT NOT NULL, region TEXT NOT NULL,
    pricing TEXT NOT NULL, gpu TEXT NOT NULL, gpu_count INTEGER NOT NULL,
    UNIQUE (provider, instance_type, region, pricing, gpu, gpu_count)
);
CREATE TABLE IF NOT EXISTS price (
    id INTEGER PRIMARY KEY, offer INTEGER NOT NULL REFERENCES offer, as_of TEXT NOT NULL, usd_per_hour REAL
);
CREATE INDEX IF NOT EXISTS price_of_offer ON price (offer, id);
"""
_LATEST = """
SELECT offer.*, price.usd_per_hour FROM offer JOIN price ON price.offer = offer.id
WHERE price.id = (SELECT MAX(id) FROM price WHERE price.offer = offer.id)
"""
_HISTORY = """
SELECT as_of, provider, instance_type, region, pricing, gpu, gpu_count, usd_per_hour,
    LAG(usd_per_hour) OVER (PARTITION BY offer ORDER BY price.id)
FROM price JOIN offer ON offer.id = offer WHERE gpu = ? ORDER BY price.id
"""
_ADD_OFFER = """
INSERT OR IGNORE INTO offer (provider, instance_type, region, pricing, gpu, gpu_count) VALUES (?, ?, ?, ?, ?,
?)
"""
_ADD_PRICE = """
INSERT INTO price (offer, as_of, usd_per_hour) SELECT id, ?, ? FROM offer
WHERE provider = ? AND instance_type = ? AND region = ? AND pricing = ? AND gpu = ? AND gpu_count = ?
"""
_Key = tuple[str, str, str, str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePoint:
    """What an offer cost from a day on, and before it; None where it was not offered."""

    as_of: date
    provider: str
    instance_type: str
    region: str
    pricing: Pricing
    gpu: str
    gpu_count: int
    usd_per_hour: float | None  # of the whole instance
    previous_usd_per_hour: float | None

    @property
    def change_fraction(self) -> float | None:
        """The change by this row, 0.1 for a tenth more; None where there was or is no price."""
        if self.usd_per_hour is None or not self.previous_usd_per_hour:
            return None
        return self.usd_per_hour / self.previous_usd_per_hour - 1


def record_prices(
    path: Path, before: Iterable[Offer], after: Iterable[Offer], read: Iterable[str], today: date
) -> int:
    """Adds what changed to the history at ``path`` and returns the number of rows added.

    Args:
        path: made where it is not there yet.
        before: the table that was in use; only what the history has no price of is taken from it.
        after: the table in use from now on.
        read: providers that were read: what they offered before and do not now is no longer offered.
        today: the day on which that was seen.

    Raises CatalogError if the file cannot be written, or is none of ours.
    """
    providers = frozenset(read)
    with _opened(path) as database:
        database.execute("BEGIN IMMEDIATE")
        latest = {tuple(row[1:7]): (row[0], row[7]) for row in database.execute(_LATEST)}
        rows: list[tuple[_Key, date, float | None]] = [
            (_key(offer), offer.as_of, offer.price_usd_per_hour)
            for offer in before
            if _key(offer) not in latest
        ]
        known = {key: usd for key, (_, usd) in latest.items()} | {key: usd for key, _, usd in rows}
        offered = {_key(offer): offer for offer in after}
        rows += [
            (key, offer.as_of, offer.price_usd_per_hour)
            for key, offer in offered.items()
            if known.get(key) != offer.price_usd_per_hour
        ]
        rows += [
            (key, today, None)
            for key, usd in known.items()
            if usd is not None and key[0] in providers and key not in offered
        ]
        for key, as_of, usd in rows:
            database.execute(_ADD_OFFER, key)
            database.execute(_ADD_PRICE, (as_of.isoformat(), usd, *key))
        database.execute("COMMIT")
    return len(rows)


def read_history(path: Path, gpus: Iterable[str]) -> tuple[PricePoint, ...]:
    """The prices of these GPUs, by catalog name, in the order of their days; empty where nothing was
    recorded.

    Raises CatalogError for a file that is no price history.
    """
    if not path.exists():
        return ()
    with _opened(path) as database:
        points = [_point(row) for name in sorted(gpus) for row in database.execute(_HISTORY, (name,))]
    return tuple(sorted(points, key=lambda point: point.as_of))  # which keeps the order of one day's


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database at ``path`` with its tables; what is not committed within is forgotten."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as database:
            database.executescript(_TABLES)
            yield database
    except (sqlite3.Error, OSError) as error:
        raise CatalogError(
            f"{path}: no price history can be kept there: {error}; move the file away to begin a new one"
        ) from error


def _key(offer: Offer) -> _Key:
    return (*offer.key[:3], offer.pricing.value, offer.gpu, offer.gpu_count)


def _point(row: tuple[str, str, str, str, str, str, int, float | None, float | None]) -> PricePoint:
    as_of, provider, instance_type, region, pricing, gpu, gpu_count, usd, previous_usd = row
    return PricePoint(
        as_of=date.fromisoformat(as_of),
        provider=provider,
        instance_type=instance_type,
        region=region,
        pricing=Pricing(pricing),
        gpu=gpu,
        gpu_count=gpu_count,
        usd_per_hour=usd,
        previous_usd_per_hour=previous_usd,
    )
