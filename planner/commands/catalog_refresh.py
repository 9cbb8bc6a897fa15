"""`planner catalog refresh`: read the providers' published prices and use them from now on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from catalogs.errors import CatalogError
from catalogs.gpus import Gpu, load_gpus
from catalogs.history import record_prices
from catalogs.offers import Offer, load_offers
from catalogs.refresh import Outcome, refresh
from catalogs.sources.registry import price_sources, sources_of
from planner.commands.price_table import current_table, history_path, refreshed_path, save_offers
from planner.exits import Exit

SKIPPED_SHOWN = 3


def run(roots: Mapping[str, str], providers: tuple[str, ...]) -> Exit:
    """Read every source, write the table whole, and say what became of each provider.

    ``roots`` says where price sources are read, by their names; empty: all of them, where they are published.
    """
    gpus, today = load_gpus(), datetime.now(UTC).date()
    sources = sources_of(roots, gpus, today, providers)
    before = _before(gpus)
    refreshed = refresh(sources, before, gpus, today)
    for one in refreshed.outcomes:
        _say(one)
    if all(one.fault is not None for one in refreshed.outcomes):
        flags = " or ".join(f"--{source.name}" for source in price_sources())
        raise CatalogError(
            "no provider's prices could be read, and the table stays as it was; check the network, or name a "
            f"copy by {flags}"
        )
    path = refreshed_path()
    save_offers(path, refreshed.offers)
    print(f"written: {path} ({len(refreshed.offers):,} offers), used from now on")
    read = [one.provider for one in refreshed.outcomes if one.fault is None]
    count = record_prices(history_path(), before, refreshed.offers, read, today)
    print(f"added: {count:,} price changes to {history_path()}; `planner catalog --history GPU` shows them")
    return Exit.PLAN


def _before(gpus: Mapping[str, Gpu]) -> tuple[Offer, ...]:
    """The table in use; the shipped one where a refreshed one cannot be read, which is then replaced."""
    try:
        return current_table(gpus).offers
    except CatalogError as error:
        print(f"planner: {error}", file=sys.stderr)
        return load_offers()


def _say(outcome: Outcome) -> None:
    if outcome.fault is not None:
        print(f"{outcome.provider}: not read: {outcome.fault}; {outcome.offer_count:,} earlier offers kept")
        return
    skipped = sum(one.row_count for one in outcome.skipped)
    parts = [f"{outcome.offer_count:,} offers"]
    if outcome.findings:
        parts.append(f"{len(outcome.findings)} quarantined")
    if skipped:
        parts.append(f"{skipped:,} rows of the list are no offer of ours")
    print(f"{outcome.provider}: {', '.join(parts)}")
    for finding in outcome.findings:
        print(f"  quarantined: {finding}")
    for one in outcome.skipped[:SKIPPED_SHOWN]:
        print(f"  left out: {one.what}: {one.reason} ({one.row_count})")
    if len(outcome.skipped) > SKIPPED_SHOWN:
        print(f"  left out: {len(outcome.skipped) - SKIPPED_SHOWN} more")
