"""Priced instances: what a provider asks for one hour of an instance with so many accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from catalogs.gpus import Link


class Pricing(StrEnum):
    """How the instance is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


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
