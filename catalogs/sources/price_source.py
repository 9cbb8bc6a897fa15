"""What a price source is, and what reading one hands back: offers, and by name what it could not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from catalogs.errors import CatalogError
from catalogs.gpus import Gpu
from catalogs.offers import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Rows of a foreign table that became no offer, and why."""

    what: str  # "A100-80GB (gpu_1x_a100_x)", or "line 48"
    reason: str
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One provider's part of a foreign catalog."""

    provider: str
    offers: tuple[Offer, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a provider's prices come from; ``read`` raises CatalogError where it cannot."""

    provider: str
    read: Callable[[], Imported]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSource:
    """A foreign catalog of prices; a refresh reads every module here that has one as ``SOURCE``."""

    name: str  # of the flag that names a copy of it, without the dashes, and in reports
    title: str  # "SkyPilot's hosted catalog"
    help: str  # of that flag
    rank: int  # of two sources that publish a provider the one with the lower rank is read
    default_root: Callable[[], str | None]  # where it is published; None where it cannot be had
    sources: Callable[[str, Mapping[str, Gpu], date], Iterable[Source]]  # root, GPUs, today
    other_roots: tuple[str, ...] = ()  # words that stand for a root that is neither folder nor address


def is_address(root: str) -> bool:
    """Whether ``root`` is read over HTTP."""
    return root.startswith(("http://", "https://"))


def providers_in(root: str, pattern: str, known: Iterable[str | None]) -> tuple[str, ...]:
    """The providers of a folder of files ``pattern``; of an address, which cannot be listed, those ``known``.

    Raises CatalogError for a folder without such a file.
    """
    if is_address(root):
        return tuple(name for name in known if name)
    found = sorted(Path(root).glob(pattern))
    if not found:
        raise CatalogError(f"{root}: no catalog there: no file {pattern}")
    return tuple(path.parent.name if "/" in pattern else path.stem for path in found)


def count_skipped(pairs: Iterable[tuple[str, str]]) -> tuple[Skipped, ...]:
    """Equal (what, reason) pairs counted, the most frequent first."""
    return tuple(
        Skipped(what=what, reason=reason, row_count=count)
        for (what, reason), count in Counter(pairs).most_common()
    )
