"""The table of offers in use: the one that `planner catalog refresh` wrote, else the shipped one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from catalogs.errors import CatalogError
from catalogs.gpus import Gpu
from catalogs.offers import Offer, Pricing, load_offers
from catalogs.refresh import offers_csv
from catalogs.sources.table import read_offers
from planner.errors import PlannerError
from trials.api import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Offers and where they were read."""

    offers: tuple[Offer, ...]
    refreshed: Path | None  # the refreshed table; None for the shipped one


def refreshed_path() -> Path:
    """Where the refreshed table is kept: the user's data directory."""
    return Path(platformdirs.user_data_dir("planner")) / "offers.csv"


def save_offers(path: Path, offers: Iterable[Offer]) -> None:
    """Write the table whole. Raises PlannerError where that fails; the old one is then as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, offers_csv(offers))
    except OSError as error:
        raise PlannerError(f"{path}: cannot be written: {error.strerror or error}") from error


def history_path() -> Path:
    """Where the prices of earlier days are kept: the user's data directory."""
    return Path(platformdirs.user_data_dir("planner")) / "prices.db"


def current_table(gpus: Mapping[str, Gpu]) -> PriceTable:
    """The refreshed table, unless there is none or a newer version of planner ships newer prices.

    Raises CatalogError for a refreshed table that cannot be read, saying what to do.
    """
    path = refreshed_path()
    shipped = load_offers()
    if not path.exists():
        return PriceTable(offers=shipped, refreshed=None)
    try:
        refreshed = read_offers(path, gpus)
    except CatalogError as error:
        raise CatalogError(
            f"{error}; `planner catalog refresh` writes the table anew, and without the file the shipped "
            "prices are used"
        ) from error
    if _newest(refreshed) < _newest(shipped):
        return PriceTable(offers=shipped, refreshed=None)
    return PriceTable(offers=refreshed, refreshed=path)


def cheapest_regions(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Of each provider's instance type and kind of price the cheapest region, in the table's order.

    Published catalogs list every region of a cloud, ten times more offers than differ in anything but price.
    """
    cheapest: dict[tuple[str, str, Pricing], Offer] = {}
    for one in offers:
        key = (one.provider, one.instance_type, one.pricing)
        if key not in cheapest or one.price_usd_per_hour < cheapest[key].price_usd_per_hour:
            cheapest[key] = one
    return tuple(cheapest.values())


def _newest(offers: Iterable[Offer]) -> str:
    return max((one.as_of.isoformat() for one in offers), default="")
