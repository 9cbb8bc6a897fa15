"""Where each provider's published prices are read from: SkyPilot's hosted catalog and gpuhunt's.

A provider that both publish is SkyPilot's, whose rows name regions and spot prices of every zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import partial
from pathlib import Path

from catalogs.errors import CatalogError
from catalogs.gpus import Gpu
from catalogs.refresh import Source
from catalogs.sources.accelerators import provider_name
from catalogs.sources.gpuhunt import import_gpuhunt, import_installed_gpuhunt
from catalogs.sources.skypilot import SCHEMA_VERSION, import_skypilot

#: Where SkyPilot itself looks (sky/catalog/constants.py).
SKYPILOT_ADDRESS = (
    f"https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/{SCHEMA_VERSION}"
)
SKYPILOT_CLOUDS = ("aws", "azure", "gcp", "jarvislabs", "lambda", "nebius", "oci", "runpod", "verda")
GPUHUNT_PROVIDERS = ("aws", "azure", "gcp", "lambdalabs", "nebius", "oci", "runpod", "verda")
#: What the installed package asks beside the files, without credentials.
GPUHUNT_ONLINE_PROVIDERS = ("cudo", "hyperstack", "vastai")
INSTALLED = "installed"  # in place of a folder or an address: the gpuhunt package


def sources_of(
    skypilot: str | None,
    gpuhunt: str | None,
    gpus: Mapping[str, Gpu],
    today: date,
    providers: Iterable[str] = (),
) -> tuple[Source, ...]:
    """One source for each provider.

    Args:
        skypilot: a folder or http(s) address with ``<cloud>/vms.csv``; None for none.
        gpuhunt: a folder of CSVs, the catalog's http(s) address, or `INSTALLED`; None for none.
        gpus: figures by catalog name.
        today: the day of prices that are asked for online.
        providers: these only, by the catalog's names; empty for all.

    Raises CatalogError for a folder that has no such catalog, or a provider that neither has.
    """
    found: dict[str, Source] = {}
    if skypilot is not None:
        for cloud in _listed(skypilot, "*/vms.csv", SKYPILOT_CLOUDS):
            read = partial(import_skypilot, skypilot, cloud, gpus)
            found.setdefault(provider_name(cloud), Source(provider=provider_name(cloud), read=read))
    if gpuhunt == INSTALLED:
        for name in (*GPUHUNT_PROVIDERS, *GPUHUNT_ONLINE_PROVIDERS):
            read = partial(import_installed_gpuhunt, name, gpus, today)
            found.setdefault(provider_name(name), Source(provider=provider_name(name), read=read))
    elif gpuhunt is not None:
        for name in _listed(gpuhunt, "*.csv", GPUHUNT_PROVIDERS):
            read = partial(import_gpuhunt, gpuhunt, name, gpus)
            found.setdefault(provider_name(name), Source(provider=provider_name(name), read=read))
    wanted = tuple(providers)
    if missing := [one for one in wanted if one not in found]:
        raise CatalogError(
            f"--provider {missing[0]}: not published there; there are {', '.join(sorted(found))}"
        )
    return tuple(one for name, one in found.items() if not wanted or name in wanted)


def _listed(root: str, pattern: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The providers of a folder; of an address, which cannot be listed, those known to be there."""
    if root.startswith(("http://", "https://")):
        return known
    found = sorted(Path(root).glob(pattern))
    if not found:
        raise CatalogError(f"{root}: no catalog there: no file {pattern}")
    return tuple(one.parent.name if "/" in pattern else one.stem for one in found)
