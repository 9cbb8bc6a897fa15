"""Providers, one row each: what other tools call them and their instances, how they bill, warn and charge for
data.

Conventions of providers.csv, where an empty cell is unknown, or none:

* ``also_called``: other names of the provider in foreign catalogs. ``skypilot_cloud`` is its name in
  SkyPilot's ``infra``, ``skypilot_catalog`` its folder in SkyPilot's hosted catalog, ``gpuhunt_catalog`` its
  file in gpuhunt's, ``gpuhunt_online`` what the gpuhunt package asks without credentials, ``dstack_backend``
  dstack's name.
* ``dstack_regions``: "same" where dstack names regions as the offers do, "own" where it has names of its own.
* ``instance_types``: what the other tools know of an offer's instance type: "same" as it stands, "host" the
  part before a plus (n1-standard-4+t4x1), "spaced" with the first underscore a space for dstack; empty,
  nothing.
* ``accelerators``: what SkyPilot calls the accelerators there, NAME=GPU or NAME@PATTERN=GPU where the name
  alone means several chips and the beginning of the instance type decides.
* ``cpu_instance_types``: a pattern of the instances without accelerators that are worth a plan (all where
  empty), ``arm_instance_types`` of those on Arm.
* ``billing_increment_s``: what a started block is rounded up to; empty for who rents no instances.
* ``egress_*``: see `catalogs.egress`.
* ``spot_notice_s``: from the notice to the end of a spot instance, as the provider states it.

Each figure has a source and the day it was read, of an undated source the first day of the year it speaks of.
Sources of the names: SkyPilot's hosted catalog, schema v8, and skypilot 0.14.1; gpuhunt 0.1.34 and dstack
0.22.5.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from importlib import resources

from catalogs.egress import EGRESS_COLUMNS, EgressPrice, egress_prices
from catalogs.errors import CatalogError
from catalogs.gpus import Gpu, load_gpus
from catalogs.rows import CsvRow, read_rows

OWN = "own"  # the provider of the user's own machines and prices
COLUMNS = (
    *("name", "also_called", "skypilot_cloud", "skypilot_catalog", "gpuhunt_catalog", "gpuhunt_online"),
    *("dstack_backend", "dstack_regions", "instance_types", "kubernetes_instance_label"),
    *("cpu_instance_types", "arm_instance_types", "accelerators"),
    *("billing_increment_s", "billing_source", "billing_as_of"),
    *EGRESS_COLUMNS,
    *("spot_notice_s", "spot_notice_source", "spot_notice_as_of"),
)


class InstanceNames(StrEnum):
    """What other tools know of a provider's instance types."""

    SAME = "same"
    HOST = "host"
    SPACED = "spaced"


class RegionNames(StrEnum):
    """Whether another tool names a provider's regions as the offers do."""

    SAME = "same"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Seconds that a provider states, with the source and the day it was read."""

    seconds: int
    source: str
    as_of: date


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorName:
    """What a provider's accelerator is called in SkyPilot, and which chip of gpus.csv it means."""

    name: str  # "H100"
    instance_pattern: str  # of the beginning of the instance types where it means this chip; empty for all
    gpu: str  # "H100-SXM5-80GB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One row of providers.csv; None where a tool does not know the provider, or nobody states the figure."""

    name: str
    also_called: tuple[str, ...]
    skypilot_cloud: str | None
    skypilot_catalog: str | None
    gpuhunt_catalog: str | None
    gpuhunt_online: str | None
    dstack_backend: str | None
    dstack_regions: RegionNames | None
    instance_types: InstanceNames | None
    kubernetes_instance_label: str | None  # of a node, whose value is the instance type
    cpu_instance_types: str | None
    arm_instance_types: str | None
    accelerators: tuple[AcceleratorName, ...]
    billing: Fact | None  # what a started block is rounded up to; None: rents no instances
    egress: tuple[EgressPrice, ...]
    spot_notice: Fact | None

    @property
    def names(self) -> frozenset[str]:
        """All names that it goes by in the catalogs that are read, in lower case."""
        foreign = (self.skypilot_catalog, self.gpuhunt_catalog, self.gpuhunt_online)
        return frozenset(name.lower() for name in (self.name, *self.also_called, *foreign) if name)


@functools.cache
def load_providers() -> Mapping[str, Provider]:
    """The providers of the shipped providers.csv, by name; read once."""
    text = resources.files("catalogs").joinpath("providers.csv").read_text(encoding="utf-8")
    return parse_providers(text.splitlines(), "providers.csv", load_gpus())


def parse_providers(lines: Iterable[str], file: str, gpus: Mapping[str, Gpu]) -> dict[str, Provider]:
    """Providers by name, from a CSV with the columns of providers.csv.

    Raises CatalogError naming file, line and field.
    """
    providers: dict[str, Provider] = {}
    taken: set[str] = set()
    for row in read_rows(lines, file, ("name",), COLUMNS):
        provider = _provider(row, gpus)
        if taken & provider.names:
            field = "name" if provider.name in taken else "also_called"
            raise row.fail(field, "unique: an earlier provider has the name")
        taken |= provider.names
        providers[provider.name] = provider
    return providers


def load_egress() -> tuple[EgressPrice, ...]:
    """The shipped prices for data that leaves a provider."""
    return tuple(price for provider in load_providers().values() for price in provider.egress)


def provider_name(foreign: str) -> str:
    """The catalog's name of the provider called ``foreign`` elsewhere; unchanged where no row has it."""
    name = foreign.lower()
    return next((provider.name for provider in load_providers().values() if name in provider.names), name)


def billing_increment_s(provider: str) -> int:
    """Seconds that a started block of ``provider`` is rounded up to.

    Raises CatalogError where providers.csv does not say: by the second would be a guess.
    """
    known = load_providers().get(provider)
    if known is None or known.billing is None:
        raise CatalogError(f"providers.csv has no billing block of {provider}: add its row, with a source")
    return known.billing.seconds


def _provider(row: CsvRow, gpus: Mapping[str, Gpu]) -> Provider:
    name = row.text("name").lower()
    return Provider(
        name=name,
        also_called=tuple((row.optional_text("also_called") or "").lower().split()),
        skypilot_cloud=row.optional_text("skypilot_cloud"),
        skypilot_catalog=row.optional_text("skypilot_catalog"),
        gpuhunt_catalog=row.optional_text("gpuhunt_catalog"),
        gpuhunt_online=row.optional_text("gpuhunt_online"),
        dstack_backend=row.optional_text("dstack_backend"),
        dstack_regions=row.optional_choice("dstack_regions", RegionNames),
        instance_types=row.optional_choice("instance_types", InstanceNames),
        kubernetes_instance_label=row.optional_text("kubernetes_instance_label"),
        cpu_instance_types=_pattern(row, "cpu_instance_types"),
        arm_instance_types=_pattern(row, "arm_instance_types"),
        accelerators=tuple(_accelerators(row, gpus)),
        billing=_fact(row, "billing_increment_s", "billing"),
        egress=egress_prices(row, name),
        spot_notice=_fact(row, "spot_notice_s", "spot_notice"),
    )


def _fact(row: CsvRow, field: str, prefix: str) -> Fact | None:
    seconds = row.optional_count(field)
    if seconds is None:
        return None
    return Fact(seconds=seconds, source=row.text(f"{prefix}_source"), as_of=row.day(f"{prefix}_as_of"))


def _accelerators(row: CsvRow, gpus: Mapping[str, Gpu]) -> Iterable[AcceleratorName]:
    for entry in (row.optional_text("accelerators") or "").split():
        left, _, gpu = entry.rpartition("=")
        name, _, pattern = left.partition("@")
        if not name or gpu not in gpus or not _is_pattern(pattern):
            raise row.fail(
                "accelerators",
                "names such as H100=H100-SXM5-80GB or H100@p5=H100-SXM5-80GB of GPUs in gpus.csv",
            )
        yield AcceleratorName(name=name, instance_pattern=pattern, gpu=gpu)


def _pattern(row: CsvRow, field: str) -> str | None:
    pattern = row.optional_text(field)
    if pattern is not None and not _is_pattern(pattern):
        raise row.fail(field, "a pattern (a regular expression)")
    return pattern


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
