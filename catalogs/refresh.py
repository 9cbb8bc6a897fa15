"""Prices kept up to date: asked provider by provider, checked, written whole or not at all, aged aloud.

A provider that cannot be read, or comes back empty, keeps the prices it had, and its fault is named. A price
that cannot be right is quarantined: named, and the price it had before stays in use.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta

from catalogs.check import PriceFinding, quarantine
from catalogs.errors import CatalogError
from catalogs.gpus import GIB, Gpu
from catalogs.offers import COLUMNS, STALE_AFTER, Offer, Pricing
from catalogs.sources.price_source import Skipped, Source

#: A price is held against an earlier one of this age at most, so that a lasting change is taken over.
JUMP_MEMORY = {
    Pricing.SPOT: timedelta(days=7),
    Pricing.ON_DEMAND: timedelta(days=90),
    Pricing.RESERVED: timedelta(days=90),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a refresh made of one provider: how many of its offers are in use, and what was kept out."""

    provider: str
    fault: str | None  # why its previous prices were kept; None where it was read
    offer_count: int  # offers of this provider now in use
    findings: tuple[PriceFinding, ...] = ()  # quarantined
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The offers to use from now on, and what became of each provider asked."""

    offers: tuple[Offer, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """Prices of one provider and kind that are older than they should be."""

    provider: str
    pricing: Pricing
    offer_count: int
    oldest: date
    age_days: int  # of the oldest

    def __str__(self) -> str:
        """The warning, with what to do."""
        limit = STALE_AFTER[self.pricing].days
        return (
            f"{self.offer_count} {self.pricing.value} prices of {self.provider} are over {limit} day"
            f"{'s' if limit > 1 else ''} old, the oldest {self.age_days} days ({self.oldest});"
            " `planner catalog refresh` fetches new ones"
        )


def refresh(
    sources: Iterable[Source], previous: Iterable[Offer], gpus: Mapping[str, Gpu], today: date
) -> Refreshed:
    """Asks every source and replaces its provider's offers; the other providers' offers stay as they were."""
    before = tuple(previous)
    current = {offer.key: offer for offer in before}
    outcomes = []
    for source in sources:
        mine = tuple(offer for offer in before if offer.provider == source.provider)
        try:
            imported = source.read()
        except CatalogError as error:
            outcomes.append(Outcome(provider=source.provider, fault=str(error), offer_count=len(mine)))
            continue
        if not imported.offers:
            fault = "its catalog holds no offer that can be used"
            outcomes.append(
                Outcome(
                    provider=source.provider, fault=fault, offer_count=len(mine), skipped=imported.skipped
                )
            )
            continue
        recent = [offer for offer in mine if today - offer.as_of <= JUMP_MEMORY[offer.pricing]]
        checked = quarantine(imported.offers, gpus, today, reference=before, previous=recent)
        suspect = {finding.offer.key for finding in checked.findings if finding.offer}
        kept = {offer.key: offer for offer in mine if offer.key in suspect}
        kept |= {offer.key: offer for offer in with_known_facts(checked.offers, mine)}
        current = {key: one for key, one in current.items() if one.provider != source.provider} | kept
        outcomes.append(
            Outcome(
                provider=source.provider,
                fault=None,
                offer_count=len(kept),
                findings=checked.findings,
                skipped=imported.skipped,
            )
        )
    return Refreshed(offers=tuple(current.values()), outcomes=tuple(outcomes))


def with_known_facts(offers: Iterable[Offer], known: Iterable[Offer]) -> tuple[Offer, ...]:
    """The offers with what a price list leaves out and is known of the same instance type.

    That is network, link and billing block; an interruption rate is taken over for the same region only.
    """
    all_known = tuple(known)
    blocks = {(offer.provider, offer.instance_type): offer.billing_increment_s for offer in all_known}
    types = {offer.instance_type: offer for offer in all_known if offer.network_bytes_per_s is not None}
    rates = {offer.key: offer.interruption_rate_per_hour for offer in all_known}
    completed = []
    for offer in offers:
        like = types.get(offer.instance_type)
        if like is not None and (like.gpu, like.gpu_count) == (offer.gpu, offer.gpu_count):
            network = offer.network_bytes_per_s or like.network_bytes_per_s
            offer = replace(offer, network_bytes_per_s=network, gpu_link=like.gpu_link)  # noqa: PLW2901
        rate = offer.interruption_rate_per_hour or rates.get(offer.key)
        block_s = blocks.get((offer.provider, offer.instance_type), offer.billing_increment_s)
        completed.append(replace(offer, interruption_rate_per_hour=rate, billing_increment_s=block_s))
    return tuple(completed)


def is_stale(offer: Offer, today: date) -> bool:
    """Whether the price is older than such prices keep."""
    return today - offer.as_of > STALE_AFTER[offer.pricing]


def stale(offers: Iterable[Offer], today: date) -> tuple[Stale, ...]:
    """What is older than STALE_AFTER, by provider and kind of pricing."""
    old: dict[tuple[str, Pricing], list[date]] = {}
    for offer in offers:
        if is_stale(offer, today):
            old.setdefault((offer.provider, offer.pricing), []).append(offer.as_of)
    return tuple(
        Stale(
            provider=provider,
            pricing=pricing,
            offer_count=len(days),
            oldest=min(days),
            age_days=(today - min(days)).days,
        )
        for (provider, pricing), days in old.items()
    )


def offers_csv(offers: Iterable[Offer]) -> str:
    """The text of the table that ``catalogs.sources.table.read_offers`` reads."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_cells(offer) for offer in offers)
    return text.getvalue()


def _cells(one: Offer) -> dict[str, object]:
    network = one.network_bytes_per_s
    return {
        "provider": one.provider,
        "instance_type": one.instance_type,
        "gpu": one.gpu,
        "gpu_count": one.gpu_count,
        "price_usd_per_hour": one.price_usd_per_hour,
        "region": one.region,
        "pricing": one.pricing.value,
        "vcpus": one.vcpus,
        "memory_gib": one.memory_bytes / GIB,
        "gpu_link": one.gpu_link.value,
        "network_gbit_per_s": None if network is None else network * 8 / 1e9,
        "billing_increment_s": one.billing_increment_s,
        "interruption_rate_per_hour": one.interruption_rate_per_hour,
        "source": one.source,
        "as_of": one.as_of.isoformat(),
    }
