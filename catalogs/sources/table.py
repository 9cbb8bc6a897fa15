"""The user's own table of offers: a CSV with the columns of offers.csv, few of them mandatory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from catalogs.errors import CatalogError
from catalogs.gpus import Gpu, load_gpus
from catalogs.offers import Offer, parse_offers


def read_offers(
    path: Path, gpus: Mapping[str, Gpu] | None = None, as_of: date | None = None
) -> tuple[Offer, ...]:
    """The offers of the CSV at ``path``, checked row by row as the shipped table is.

    Mandatory columns: provider, instance_type, gpu (a catalog name or an unambiguous part of one),
    gpu_count, price_usd_per_hour (of the whole instance). See ``catalogs.offers.parse_offers`` for the
    others and their defaults. Raises CatalogError for a file that cannot be read, or naming file, line,
    field, value and what is expected.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path}: not a UTF-8 text; save the table as CSV (UTF-8)") from error
    return parse_offers(text.splitlines(), str(path), load_gpus() if gpus is None else gpus, as_of)
