"""Priced instances: what a provider asks for one hour of an instance with so many accelerators.

Conventions of offers.csv: prices are US dollars per hour of the whole instance. ``as_of`` is the day for
which the source vouches; of a snapshot without a date it is the earliest day that it can be from, so that
its age is overstated and never understated. AWS spot prices are those of the region's cheapest zone.
``gpu_link`` is "none" for a single accelerator. ``interruption_rate_per_hour`` is derived from the band
that the AWS Spot Advisor publishes (the share f of instances reclaimed within the trailing month, its
middle, 25% for the open band): -ln(1 - f) / 730 h; empty where nobody publishes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from importlib import resources

from catalogs.errors import CatalogError
from catalogs.gpus import GIB, DeviceKind, Gpu, Link, find_gpu, load_gpus
from catalogs.providers import OWN, billing_increment_s
from catalogs.rows import CsvRow, read_rows

#: What a row that leaves them out is taken to have, per accelerator (the low end of what clouds give).
#: They inform the reader; no estimate on a GPU depends on them. A CPU instance must state them.
ASSUMED_VCPUS_PER_GPU = 8
ASSUMED_MEMORY_BYTES_PER_GPU = 32 * GIB

MANDATORY = ("provider", "instance_type", "gpu", "gpu_count", "price_usd_per_hour")
COLUMNS = (
    *MANDATORY,
    *("region", "pricing", "vcpus", "memory_gib", "gpu_link", "network_gbit_per_s", "billing_increment_s"),
    *("interruption_rate_per_hour", "source", "as_of"),
)


class Pricing(StrEnum):
    """How the instance is bought, in the words of offers.csv."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


#: Spot prices move through the day; price lists are changed by the month.
STALE_AFTER = {
    Pricing.SPOT: timedelta(days=1),
    Pricing.ON_DEMAND: timedelta(days=30),
    Pricing.RESERVED: timedelta(days=30),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One row of offers.csv: one instance type in one region under one kind of pricing.

    ``price_usd_per_hour`` is for the whole instance, all its accelerators included.
    """

    provider: str  # "aws"
    instance_type: str  # "p4de.24xlarge"
    region: str  # "us-east-1"
    pricing: Pricing
    gpu: str  # catalog name; a CPU class for an instance without accelerators
    gpu_count: int  # accelerators in the instance; 1 for a CPU instance
    vcpus: int
    memory_bytes: int  # host RAM
    gpu_link: Link
    network_bytes_per_s: float | None  # to other instances; None where the provider does not say
    price_usd_per_hour: float
    billing_increment_s: int  # what a started block is rounded up to
    source: str
    as_of: date
    interruption_rate_per_hour: float | None = None  # of one spot instance; None where unknown

    @property
    def key(self) -> tuple[str, str, str, Pricing]:
        """What makes it one offer: provider, instance type, region, pricing."""
        return self.provider, self.instance_type, self.region, self.pricing

    @property
    def price_usd_per_gpu_hour(self) -> float:
        """Dollars per hour of one accelerator; of the whole instance for a CPU."""
        return self.price_usd_per_hour / self.gpu_count


def load_offers() -> tuple[Offer, ...]:
    """The offers of the shipped offers.csv, in its order. Raises CatalogError for a row that cannot be."""
    text = resources.files("catalogs").joinpath("offers.csv").read_text(encoding="utf-8")
    return parse_offers(text.splitlines(), "offers.csv", load_gpus())


def parse_offers(
    lines: Iterable[str], file: str, gpus: Mapping[str, Gpu], as_of: date | None = None
) -> tuple[Offer, ...]:
    """Offers from a CSV with the columns of offers.csv, of which MANDATORY must be there.

    Left out, ``region`` is "any", ``pricing`` on-demand, ``gpu_link`` the accelerator's own,
    ``network_gbit_per_s`` and ``interruption_rate_per_hour`` unknown, ``billing_increment_s`` that of the
    provider's row in providers.csv (it must be given where there is none), ``source`` the file's name and
    ``as_of`` the argument (by default today, the day the user states the price). Raises CatalogError naming
    file, line, field, value and what is expected.
    """
    today = as_of or date.today()
    offers: dict[tuple[str, str, str, Pricing], Offer] = {}
    for row in read_rows(lines, file, MANDATORY, COLUMNS):
        offer = _offer(row, gpus, today)
        if offer.key in offers:
            raise row.fail(
                "instance_type", "unique for its provider, region and pricing: an earlier row has it"
            )
        offers[offer.key] = offer
    return tuple(offers.values())


def apply_prices(
    offers: Iterable[Offer], usd_per_gpu_hour: Mapping[str, float], as_of: date | None = None
) -> tuple[Offer, ...]:
    """The offers as they are for someone who pays these dollars per accelerator-hour, by catalog name.

    Every on-demand offer of such a GPU gets the price times its count, whoever the provider (filter by
    provider to apply a negotiated rate to one of them). Spot and reserved offers stay unless they cost
    more than that. A GPU that no on-demand offer has singly also gets a one-GPU offer of the provider
    "own". A CPU class is priced per vCPU-hour. ``as_of`` is the day of the user's price, today if None.
    """
    today = as_of or date.today()
    gpus = load_gpus()
    for gpu, price in usd_per_gpu_hour.items():
        if gpu not in gpus:
            raise CatalogError(
                f"price of GPU {gpu!r}: not a catalog name; `planner catalog --gpus` lists them"
            )
        if not 0 < price < float("inf"):
            raise CatalogError(
                f"price of GPU {gpu!r}: {price!r} is not a positive number of dollars per hour"
            )
    priced = [
        _priced(offer, usd_per_gpu_hour[offer.gpu], gpus, today) if offer.gpu in usd_per_gpu_hour else offer
        for offer in offers
    ]
    kept = [offer for offer in priced if offer is not None]
    single = {offer.gpu for offer in kept if offer.pricing is Pricing.ON_DEMAND and offer.gpu_count == 1}
    own = [
        _own_offer(gpus[gpu], price, today) for gpu, price in usd_per_gpu_hour.items() if gpu not in single
    ]
    return (*kept, *own)


def _priced(offer: Offer, usd_per_gpu_hour: float, gpus: Mapping[str, Gpu], today: date) -> Offer | None:
    is_cpu = gpus[offer.gpu].kind is DeviceKind.CPU
    price = usd_per_gpu_hour * (offer.vcpus if is_cpu else offer.gpu_count)
    if offer.pricing is not Pricing.ON_DEMAND:
        return offer if offer.price_usd_per_hour <= price else None
    return replace(offer, price_usd_per_hour=price, source="your own price", as_of=today)


def _own_offer(gpu: Gpu, usd_per_gpu_hour: float, today: date) -> Offer:
    is_cpu = gpu.kind is DeviceKind.CPU
    return Offer(
        provider=OWN,
        instance_type=f"1x {gpu.name}",
        region="any",
        pricing=Pricing.ON_DEMAND,
        gpu=gpu.name,
        gpu_count=1,
        vcpus=ASSUMED_VCPUS_PER_GPU,
        memory_bytes=ASSUMED_MEMORY_BYTES_PER_GPU,
        gpu_link=Link.NONE,
        network_bytes_per_s=None,
        price_usd_per_hour=usd_per_gpu_hour * (ASSUMED_VCPUS_PER_GPU if is_cpu else 1),
        billing_increment_s=billing_increment_s(OWN),
        source="your own price",
        as_of=today,
    )


def _offer(row: CsvRow, gpus: Mapping[str, Gpu], today: date) -> Offer:
    try:
        gpu = find_gpu(row.text("gpu"), gpus)
    except CatalogError as error:
        raise CatalogError(f"{row.file}, line {row.line}, field gpu: {error}") from error
    gpu_count = row.count("gpu_count")
    is_cpu = gpu.kind is DeviceKind.CPU
    if is_cpu and gpu_count != 1:
        raise row.fail("gpu_count", "1: an instance without accelerators is one machine")
    memory = row.number("memory_gib") if is_cpu else row.optional_number("memory_gib")
    return Offer(
        provider=row.text("provider").lower(),
        instance_type=row.text("instance_type"),
        region=row.optional_text("region") or "any",
        pricing=row.optional_choice("pricing", Pricing) or Pricing.ON_DEMAND,
        gpu=gpu.name,
        gpu_count=gpu_count,
        vcpus=(row.count("vcpus") if is_cpu else row.optional_count("vcpus"))
        or ASSUMED_VCPUS_PER_GPU * gpu_count,
        memory_bytes=int(memory * GIB) if memory else ASSUMED_MEMORY_BYTES_PER_GPU * gpu_count,
        gpu_link=row.optional_choice("gpu_link", Link) or (gpu.link if gpu_count > 1 else Link.NONE),
        network_bytes_per_s=row.scaled("network_gbit_per_s", 1e9 / 8),
        price_usd_per_hour=row.number("price_usd_per_hour"),
        billing_increment_s=row.optional_count("billing_increment_s") or _billing_increment_s(row),
        source=row.optional_text("source") or row.file,
        as_of=row.optional_day("as_of") or today,
        interruption_rate_per_hour=row.optional_number("interruption_rate_per_hour"),
    )


def _billing_increment_s(row: CsvRow) -> int:
    provider = row.text("provider").lower()
    try:
        return billing_increment_s(provider)
    except CatalogError:
        raise row.fail(
            "billing_increment_s",
            f"known of {provider}: give the seconds that a started block is rounded up to (1 where seconds "
            f"are billed), or call machines of your own {OWN!r}",
        ) from None
