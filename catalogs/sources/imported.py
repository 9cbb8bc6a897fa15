"""What an importer hands back: offers, and by name what it could not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

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


def count_skipped(pairs: Iterable[tuple[str, str]]) -> tuple[Skipped, ...]:
    """Equal (what, reason) pairs counted, the most frequent first."""
    return tuple(
        Skipped(what=what, reason=reason, row_count=count)
        for (what, reason), count in Counter(pairs).most_common()
    )
