"""The price sources that there are: every module of this package that has a ``SOURCE``, found by looking."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import catalogs.sources
from catalogs.errors import CatalogError
from catalogs.gpus import Gpu
from catalogs.sources.price_source import PriceSource, Source, is_address


@functools.cache
def price_sources() -> tuple[PriceSource, ...]:
    """All of them, the one that goes first where two publish a provider first."""
    names = [module.name for module in pkgutil.iter_modules(catalogs.sources.__path__)]
    modules = [importlib.import_module(f"catalogs.sources.{name}") for name in names]
    found = [module.SOURCE for module in modules if hasattr(module, "SOURCE")]
    return tuple(sorted(found, key=lambda source: source.rank))


def sources_of(
    roots: Mapping[str, str], gpus: Mapping[str, Gpu], today: date, providers: Iterable[str] = ()
) -> tuple[Source, ...]:
    """One source for each provider, of the price sources that ``roots`` names, or of all where it is empty.

    Args:
        roots: a folder, an http(s) address or a source's own word, by the name of the price source.
        gpus: figures by catalog name.
        today: the day of prices that are asked for online.
        providers: these only, by the catalog's names; empty for all.

    Raises CatalogError for a root without such a catalog, or a provider that none of them has.
    """
    found: dict[str, Source] = {}
    for price_source in price_sources():
        root = roots.get(price_source.name) if roots else price_source.default_root()
        if root is None:
            continue
        if not (is_address(root) or root in price_source.other_roots or Path(root).is_dir()):
            raise CatalogError(f"--{price_source.name} {root}: neither a folder nor an http(s) address")
        for source in price_source.sources(root, gpus, today):
            found.setdefault(source.provider, source)
    wanted = tuple(providers)
    if missing := [provider for provider in wanted if provider not in found]:
        raise CatalogError(
            f"--provider {missing[0]}: not published there; there are {', '.join(sorted(found))}"
        )
    return tuple(source for provider, source in found.items() if not wanted or provider in wanted)
