"""gpuhunt's catalog: a CSV per provider, from a folder, its published address, or the installed package.

Published at ``{address}/{provider}/version`` and ``{address}/{provider}/{version}/catalog.zip``, the zip
holding ``{provider}.csv`` with one row per instance, location and kind of pricing. What it does not say of
itself, each the subject of a test:

* The provider is the file's name; prices are US dollars, and ``memory`` is GiB although it says GB.
* ``gpu_name`` is not unique: A100 and V100 come in two memories, and no form factor is named (see
  catalogs.sources.accelerators). ``gpu_memory`` only tells these apart; the figure is gpus.csv's.
* A ``gpu_memory`` below the card's is a share of a card, which is not offered.
* ``gpu_vendor`` is empty in older files, where NVIDIA is meant unless the name begins with ``tpu-``.
* ``location`` may be a zone; the cheapest of equal rows holds.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from functools import partial

from catalogs.errors import CatalogError
from catalogs.gpus import GIB, Gpu, Link
from catalogs.offers import Offer, Pricing
from catalogs.providers import billing_increment_s, load_providers, provider_name
from catalogs.sources.accelerators import catalog_name
from catalogs.sources.fetch import Fetched, fetch, join
from catalogs.sources.price_source import (
    Imported,
    PriceSource,
    Source,
    count_skipped,
    is_address,
    providers_in,
)

INSTALLED = "installed"  # in place of a folder or an address: the gpuhunt package
_COLUMNS = (
    "instance_name",
    "location",
    "price",
    "cpu",
    "memory",
    "gpu_count",
    "gpu_name",
    "gpu_memory",
    "spot",
)
_OPTIONAL = ("gpu_vendor", "cpu_arch")
#: A card shows a little less than its name; half of one shows half.
_SHARE_FRACTION = 0.85


def import_gpuhunt(root: str, provider: str, gpus: Mapping[str, Gpu], as_of: date | None = None) -> Imported:
    """The offers of gpuhunt's ``provider`` below ``root``: a folder of CSVs or the catalog's http(s) address.

    Raises CatalogError if the file cannot be had or has not the published columns; rows that become no
    offer are named in the result.
    """
    fetched = _fetch_csv(root, provider)
    source = f"gpuhunt catalog, {fetched.location}"
    return read_items(_rows(fetched, provider), provider, gpus, source, as_of or fetched.as_of)


def import_installed_gpuhunt(provider: str, gpus: Mapping[str, Gpu], as_of: date) -> Imported:
    """The same from the installed gpuhunt package, which also asks providers that publish no file.

    Raises CatalogError if the package is not installed or cannot answer.
    """
    try:
        package = importlib.import_module("gpuhunt")
    except ImportError as error:
        raise CatalogError("gpuhunt is not installed: pip install 'gpu-planner[gpuhunt]'") from error
    try:
        items = package.query(provider=provider)
    except (package.GPUHuntError, OSError, ValueError) as error:
        raise CatalogError(f"gpuhunt, {provider}: {error}") from error
    rows = ({name: _cell(getattr(item, name)) for name in (*_COLUMNS, *_OPTIONAL)} for item in items)
    return read_items(rows, provider, gpus, f"gpuhunt package, {provider}", as_of)


def read_items(
    rows: Iterable[Mapping[str, str]], provider: str, gpus: Mapping[str, Gpu], source: str, as_of: date
) -> Imported:
    """The offers in gpuhunt's rows; see ``import_gpuhunt``."""
    name = provider_name(provider)
    billing_increment_s(name)  # without one none of its prices can be used: said once, not for each row
    skipped: list[tuple[str, str]] = []
    cheapest: dict[object, Offer] = {}
    for number, row in enumerate(rows, start=2):
        try:
            offer = _offer(row, name, gpus, source, as_of)
        except (ValueError, CatalogError) as error:
            is_named = isinstance(error, CatalogError)
            skipped.append((_what(row) if is_named else f"line {number}", str(error)))
            continue
        known = cheapest.get(offer.key)
        if known is None or offer.price_usd_per_hour < known.price_usd_per_hour:
            cheapest[offer.key] = offer
    return Imported(provider=name, offers=tuple(cheapest.values()), skipped=count_skipped(skipped))


def _sources(root: str, gpus: Mapping[str, Gpu], today: date) -> Iterator[Source]:
    providers = load_providers().values()
    published = [provider.gpuhunt_catalog for provider in providers if provider.gpuhunt_catalog]
    if root == INSTALLED:
        for name in (
            *published,
            *(provider.gpuhunt_online for provider in providers if provider.gpuhunt_online),
        ):
            read = partial(import_installed_gpuhunt, name, gpus, today)
            yield Source(provider=provider_name(name), read=read)
        return
    for name in providers_in(root, "*.csv", published):
        yield Source(provider=provider_name(name), read=partial(import_gpuhunt, root, name, gpus))


SOURCE = PriceSource(
    name="gpuhunt",
    title="gpuhunt where it is installed",
    help=f"A folder or http(s) address of gpuhunt's catalog, or '{INSTALLED}' for the package.",
    rank=1,
    default_root=lambda: INSTALLED if importlib.util.find_spec("gpuhunt") else None,
    sources=_sources,
    other_roots=(INSTALLED,),
)


def _fetch_csv(root: str, provider: str) -> Fetched:
    if not is_address(root):
        return fetch(join(root, f"{provider}.csv"))
    version = fetch(join(root, provider, "version")).text.strip()
    archive = fetch(join(root, provider, version, "catalog.zip"))
    try:
        with zipfile.ZipFile(io.BytesIO(archive.content)) as files:
            content = files.read(f"{provider}.csv")
    except (zipfile.BadZipFile, KeyError) as error:
        raise CatalogError(f"{archive.location}: not a gpuhunt catalog: {error}") from error
    return Fetched(location=archive.location, content=content, as_of=_day_of(version) or archive.as_of)


def _day_of(version: str) -> date | None:
    """Versions begin with their day, 20261121."""
    try:
        return datetime.strptime(version[:8], "%Y%m%d").date()
    except ValueError:
        return None


def _rows(fetched: Fetched, provider: str) -> Iterator[Mapping[str, str]]:
    reader = csv.DictReader(fetched.text.splitlines())
    if missing := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
        raise CatalogError(f"{provider}.csv: not a gpuhunt catalog: column {', '.join(missing)} is missing")
    for row in reader:
        yield {name: (row.get(name) or "").strip() for name in (*_COLUMNS, *_OPTIONAL)}


def _cell(value: object) -> str:
    """As gpuhunt writes it: None is empty, an enum its value."""
    return "" if value is None else str(getattr(value, "value", value))


def _what(row: Mapping[str, str]) -> str:
    return f"{row['gpu_name']} {row['gpu_memory']} GB ({row['instance_name']})"


def _offer(row: Mapping[str, str], provider: str, gpus: Mapping[str, Gpu], source: str, as_of: date) -> Offer:
    """Raises ValueError for a cell that cannot be read, CatalogError for an accelerator that is not ours."""
    gpu_count = int(row["gpu_count"])
    gpu = gpus[_gpu_name(row, provider, gpus) if gpu_count else _cpu_class(row)]
    if row["spot"].lower() not in {"true", "false"}:
        raise ValueError(f"spot is {row['spot']!r}, neither True nor False")
    price = float(row["price"])
    if not 0 < price < float("inf"):
        raise ValueError(f"price is {row['price']!r}")
    return Offer(
        provider=provider,
        instance_type=row["instance_name"],
        region=row["location"],
        pricing=Pricing.SPOT if row["spot"].lower() == "true" else Pricing.ON_DEMAND,
        gpu=gpu.name,
        gpu_count=max(1, gpu_count),
        vcpus=int(row["cpu"]),
        memory_bytes=int(float(row["memory"]) * GIB),
        gpu_link=gpu.link if gpu_count > 1 else Link.NONE,
        network_bytes_per_s=None,
        price_usd_per_hour=price,
        billing_increment_s=billing_increment_s(provider),
        source=source,
        as_of=as_of,
    )


def _gpu_name(row: Mapping[str, str], provider: str, gpus: Mapping[str, Gpu]) -> str:
    if row.get("gpu_vendor", "") not in {"", "nvidia"} or row["gpu_name"].startswith("tpu-"):
        raise CatalogError("not an NVIDIA GPU")
    memory_gb = float(row["gpu_memory"]) if row["gpu_memory"] else None
    name = catalog_name(provider, row["gpu_name"], row["instance_name"], memory_gb)
    if name is None or name not in gpus:
        raise CatalogError("no accelerator of gpus.csv, or its form factor is not said")
    if memory_gb is not None and memory_gb * GIB < _SHARE_FRACTION * gpus[name].memory_bytes:
        raise CatalogError(f"{memory_gb:g} GB of a {name}: a share is not a whole card")
    return name


def _cpu_class(row: Mapping[str, str]) -> str:
    return "CPU-ARM64" if row.get("cpu_arch") == "arm" else "CPU-X86-64"
