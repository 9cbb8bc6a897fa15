"""Invariants of a price table: what cannot be, or is unlikely enough to be looked at first.

A finding is a value that names the row and what is wrong with it; the rows with findings are quarantined
(kept apart and named), never silently dropped nor silently used.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from catalogs.gpus import GIB, DeviceKind, Gpu, Link
from catalogs.offers import Offer, Pricing

#: An accelerator-hour is believed between these multiples of the median on-demand price of its kind. Real
#: lists differ by 21 (a V100 at 0.14 or 3.06 dollars); wrong ones (a host without its GPU, cents for
#: dollars, a monthly price) by more.
LOWEST_OF_MEDIAN = 1 / 25
HIGHEST_OF_MEDIAN = 8.0
LOWEST_SPOT_OF_MEDIAN = 1 / 50
#: A median of fewer prices says nothing; then only the floor holds, under any price seen for any GPU.
MEDIAN_MIN_COUNT = 3
FLOOR_USD_PER_GPU_HOUR = 0.02
#: A price that moves by more than this factor between two refreshes is a fault until somebody looks.
JUMP_FACTOR = 5.0
#: Host shapes that clouds rent: vCPUs per accelerator, GiB of RAM per accelerator and per vCPU.
VCPUS_PER_GPU = (1, 256)
GIB_PER_GPU = (2, 2048)
GIB_PER_VCPU = (0.4, 64)


class Rule(StrEnum):
    """The invariant that a row breaks; the value is what a reader is told."""

    UNKNOWN_GPU = "unknown GPU"
    DUPLICATE = "duplicate"
    SPOT_ABOVE_ON_DEMAND = "spot above on-demand"
    PRICE = "implausible price"
    JUMP = "price jump"
    HOST = "implausible host"
    LINK = "impossible link"
    DATE = "dated in the future"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFinding:
    """A row of a price table, the invariant that it breaks, and the figures that show it."""

    rule: Rule
    subject: str  # "aws p5.48xlarge us-east-1 spot", or the line of a foreign table
    detail: str
    offer: Offer | None = None  # None where a row never became an offer

    def __str__(self) -> str:
        """One line for the reader."""
        return f"{self.subject}: {self.rule.value}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Offers to use, and the findings that keep the others out."""

    offers: tuple[Offer, ...]
    findings: tuple[PriceFinding, ...]


def quarantine(
    offers: Iterable[Offer],
    gpus: Mapping[str, Gpu],
    today: date,
    reference: Iterable[Offer] = (),
    previous: Iterable[Offer] = (),
) -> Checked:
    """Splits the offers into those without findings and the findings of the others."""
    all_offers = tuple(offers)
    findings = check_offers(all_offers, gpus, today, reference) + check_jumps(all_offers, previous)
    suspect = {id(finding.offer) for finding in findings}
    return Checked(offers=tuple(offer for offer in all_offers if id(offer) not in suspect), findings=findings)


def check_offers(
    offers: Iterable[Offer], gpus: Mapping[str, Gpu], today: date, reference: Iterable[Offer] = ()
) -> tuple[PriceFinding, ...]:
    """Every finding about these offers; ``reference`` only widens the medians that prices are held to."""
    all_offers = tuple(offers)
    known = [offer for offer in all_offers if offer.gpu in gpus]
    medians = _medians([*known, *(offer for offer in reference if offer.gpu in gpus)], gpus)
    findings = [
        _finding(Rule.UNKNOWN_GPU, offer, f"{offer.gpu!r} is not in gpus.csv")
        for offer in all_offers
        if offer.gpu not in gpus
    ]
    findings += _duplicates(all_offers)
    findings += _spot_above_on_demand(all_offers)
    for offer in known:
        findings += _host(offer, gpus[offer.gpu])
        findings += _price(offer, gpus[offer.gpu], medians.get(offer.gpu))
        if offer.as_of > today:
            findings.append(_finding(Rule.DATE, offer, f"{offer.as_of} is after {today}"))
    return tuple(findings)


def check_jumps(offers: Iterable[Offer], previous: Iterable[Offer]) -> tuple[PriceFinding, ...]:
    """Offers whose price moved by more than JUMP_FACTOR since ``previous``, in either direction."""
    before = {offer.key: offer.price_usd_per_hour for offer in previous}
    findings = []
    for offer in offers:
        old, new = before.get(offer.key), offer.price_usd_per_hour
        if old and not 1 / JUMP_FACTOR <= new / old <= JUMP_FACTOR:
            detail = f"{new:g} dollars per hour after {old:g}, over {JUMP_FACTOR:g} times apart"
            findings.append(_finding(Rule.JUMP, offer, detail))
    return tuple(findings)


def _finding(rule: Rule, offer: Offer, detail: str) -> PriceFinding:
    subject = f"{offer.provider} {offer.instance_type} {offer.region} {offer.pricing.value}"
    return PriceFinding(rule=rule, subject=subject, detail=detail, offer=offer)


def _unit_price(offer: Offer, gpu: Gpu) -> float:
    """Dollars per hour of one accelerator, or of one vCPU."""
    return offer.price_usd_per_hour / (offer.vcpus if gpu.kind is DeviceKind.CPU else offer.gpu_count)


def _medians(offers: Iterable[Offer], gpus: Mapping[str, Gpu]) -> dict[str, float]:
    prices: dict[str, list[float]] = defaultdict(list)
    for offer in offers:
        if offer.pricing is Pricing.ON_DEMAND:
            prices[offer.gpu].append(_unit_price(offer, gpus[offer.gpu]))
    return {gpu: statistics.median(some) for gpu, some in prices.items() if len(some) >= MEDIAN_MIN_COUNT}


def _duplicates(offers: Iterable[Offer]) -> list[PriceFinding]:
    seen: set[tuple[str, str, str, Pricing]] = set()
    findings = []
    for offer in offers:
        if offer.key in seen:
            findings.append(_finding(Rule.DUPLICATE, offer, "an earlier row is the same offer"))
        seen.add(offer.key)
    return findings


def _spot_above_on_demand(offers: Iterable[Offer]) -> list[PriceFinding]:
    """Both rows are suspect: often it is the on-demand price that is wrong (a host without its GPU)."""
    all_offers = tuple(offers)
    on_demand = {offer.key[:3]: offer for offer in all_offers if offer.pricing is Pricing.ON_DEMAND}
    findings = []
    for spot in all_offers:
        full = on_demand.get(spot.key[:3])
        if spot.pricing is Pricing.SPOT and full and spot.price_usd_per_hour > full.price_usd_per_hour:
            detail = (
                f"{spot.price_usd_per_hour:g} dollars per hour against {full.price_usd_per_hour:g} on demand"
            )
            findings += [_finding(Rule.SPOT_ABOVE_ON_DEMAND, suspect, detail) for suspect in (spot, full)]
    return findings


def _price(offer: Offer, gpu: Gpu, median: float | None) -> list[PriceFinding]:
    price = _unit_price(offer, gpu)
    if gpu.kind is DeviceKind.GPU and price < FLOOR_USD_PER_GPU_HOUR:
        return [_finding(Rule.PRICE, offer, f"{price:g} dollars for an hour of a {gpu.name}")]
    if median is None:
        return []
    lowest = LOWEST_OF_MEDIAN if offer.pricing is Pricing.ON_DEMAND else LOWEST_SPOT_OF_MEDIAN
    if lowest * median <= price <= HIGHEST_OF_MEDIAN * median:
        return []
    unit = "vCPU" if gpu.kind is DeviceKind.CPU else gpu.name
    return [
        _finding(
            Rule.PRICE, offer, f"{price:g} dollars for an hour of a {unit}, whose median is {median:.3g}"
        )
    ]


def _host(offer: Offer, gpu: Gpu) -> list[PriceFinding]:
    findings = []
    host: list[tuple[str, float, tuple[float, float]]] = [
        ("GiB per vCPU", offer.memory_bytes / GIB / offer.vcpus, GIB_PER_VCPU)
    ]
    if gpu.kind is DeviceKind.GPU:
        host.append(("vCPUs per accelerator", offer.vcpus / offer.gpu_count, VCPUS_PER_GPU))
        host.append(("GiB of RAM per accelerator", offer.memory_bytes / GIB / offer.gpu_count, GIB_PER_GPU))
    for what, value, (low, high) in host:
        if not low <= value <= high:
            findings.append(_finding(Rule.HOST, offer, f"{value:g} {what}, not between {low:g} and {high:g}"))
    if (offer.gpu_link is Link.NONE) != (offer.gpu_count == 1):
        findings.append(
            _finding(Rule.LINK, offer, f"{offer.gpu_link.value!r} between {offer.gpu_count} accelerators")
        )
    if offer.gpu_link is Link.NVLINK and gpu.nvlink_bytes_per_s is None:
        findings.append(_finding(Rule.LINK, offer, f"a {gpu.name} has no NVLink"))
    return findings
