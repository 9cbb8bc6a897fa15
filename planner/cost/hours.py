"""Hours, prices and the terms of a bill: what every formula of money starts from.

A run holds ``instance_count`` instances for ``held_s``, at

    billed_s / 3600 * price_usd_per_hour * instance_count

where ``billed_s`` is that time rounded up to the provider's billing increment. A bill is kept as a
`Breakdown` of named terms, so that what a term adds is never hidden in a total; allin.py has the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from catalogs.gpus import DeviceKind, Gpu
from catalogs.offers import Offer, Pricing
from planner.cost.defaults import PROVISIONING_S
from planner.estimate.values import Basis, Estimate
from planner.target import Target

SECONDS_PER_HOUR = 3600.0

SWEEP = "sweep"
"""The name of the term that no run pays: it is spent when the run begins."""

_ROUNDING_SLACK = 1e-9  # so that a budget of exactly n blocks buys n blocks in floating point


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTerm:
    """One named part of a bill, in dollars at the low, expected and high end of the step time."""

    name: str
    low_usd: float
    expected_usd: float
    high_usd: float
    formula: str  # in words

    @classmethod
    def of(cls, name: str, usd: Estimate, formula: str) -> CostTerm:
        """The term with the ends of an estimate, in dollars; ``formula`` says in words how it is made."""
        return cls(name=name, low_usd=usd.low, expected_usd=usd.expected, high_usd=usd.high, formula=formula)

    @classmethod
    def fixed(cls, name: str, usd: float, formula: str) -> CostTerm:
        """The term ``name`` of ``usd`` dollars, the same at both ends of the interval."""
        return cls(name=name, low_usd=usd, expected_usd=usd, high_usd=usd, formula=formula)

    @property
    def is_zero(self) -> bool:
        """Whether it adds nothing at either end."""
        return not (self.low_usd or self.expected_usd or self.high_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Terms that add up exactly to the total.

    The terms move together (a slower step makes all of them dearer), so bounds add up as well.
    """

    terms: tuple[CostTerm, ...]
    basis: Basis  # of the step time

    @property
    def total_usd(self) -> Estimate:
        """The sum of all terms, the sweep among them, in dollars."""
        return self._sum(self.terms)

    @property
    def run_usd(self) -> Estimate:
        """The sum of all terms but the sweep, which is spent already, in dollars."""
        return self._sum([term for term in self.terms if term.name != SWEEP])

    def _sum(self, terms: Sequence[CostTerm]) -> Estimate:
        return Estimate(
            low=math.fsum(term.low_usd for term in terms),
            expected=math.fsum(term.expected_usd for term in terms),
            high=math.fsum(term.high_usd for term in terms),
            basis=self.basis,
        )


def training_s(target: Target, step_time_s: Estimate) -> Estimate:
    """Seconds of all optimizer steps, and of nothing else.

    Where the number of steps is not sure either, its error is independent of that of the step time: the
    halves of both intervals add up in quadrature, as logarithms.
    """
    steps_s = step_time_s.scaled(float(target.step_count))
    if target.samples_low is None or target.samples_high is None:
        return steps_s
    below = math.hypot(
        math.log(steps_s.expected / steps_s.low), math.log(target.samples / target.samples_low)
    )
    above = math.hypot(
        math.log(steps_s.high / steps_s.expected), math.log(target.samples_high / target.samples)
    )
    return replace(steps_s, low=steps_s.expected * math.exp(-below), high=steps_s.expected * math.exp(above))


def with_waiting(cost_usd: Estimate, duration_s: Estimate, hour_value_usd: float | None) -> Estimate:
    """The bill and what the waiting is worth: cost + value of an hour x hours. A slow run is dear in both."""
    usd_per_s = (hour_value_usd or 0.0) / SECONDS_PER_HOUR
    return Estimate(
        low=cost_usd.low + usd_per_s * duration_s.low,
        expected=cost_usd.expected + usd_per_s * duration_s.expected,
        high=cost_usd.high + usd_per_s * duration_s.high,
        basis=cost_usd.basis,
    )


def sweep_term(spent_usd: float) -> CostTerm:
    """What the trials cost, as a term of the bill: spent already, so it has no interval."""
    return CostTerm.fixed(SWEEP, spent_usd, "time that trials held their devices x catalog price")


def hourly_usd(offer: Offer, instance_count: int) -> float:
    """Dollars per hour for ``instance_count`` instances of ``offer`` together."""
    return offer.price_usd_per_hour * instance_count


def billed_s(offer: Offer, held_s: float) -> float:
    """Seconds on the bill for an instance held ``held_s``: started blocks count whole."""
    blocks = math.ceil(held_s / offer.billing_increment_s - _ROUNDING_SLACK)
    return float(blocks * offer.billing_increment_s)


def samples_within(
    target: Target,
    offer: Offer,
    instance_count: int,
    step_time_s: float,
    start_s: float = PROVISIONING_S,
    *,
    spent_usd: float = 0.0,
) -> int:
    """The most samples that budget and deadline leave room for at ``step_time_s`` a step; 0 when none.

    ``start_s`` is what the instances are held besides the steps, ``spent_usd`` what is paid besides the rent.
    """
    held_s = math.inf
    if target.deadline_s is not None:
        held_s = target.deadline_s
    if target.budget_usd is not None:
        block_usd = hourly_usd(offer, instance_count) / SECONDS_PER_HOUR * offer.billing_increment_s
        blocks = math.floor((target.budget_usd - spent_usd) / block_usd + _ROUNDING_SLACK)
        held_s = min(held_s, blocks * offer.billing_increment_s)
    if math.isinf(held_s):
        return target.samples
    steps = math.floor((held_s - start_s) / step_time_s + _ROUNDING_SLACK)
    return max(0, min(target.samples, steps * target.global_batch_size))


def device_usd_per_hour(offers: Iterable[Offer], gpu: Gpu, vcpus: int | None = None) -> float | None:
    """What an hour of one GPU, or of a machine with ``vcpus``, costs on demand where it is cheapest.

    An instance's price is shared equally by its GPUs, or by its vCPUs when it has none. None when the
    catalog does not price the device, or when the vCPUs to be priced are unknown.
    """
    mine = [offer for offer in offers if offer.gpu == gpu.name and offer.pricing is Pricing.ON_DEMAND]
    if not mine:
        return None
    if gpu.kind is DeviceKind.GPU:
        return min(offer.price_usd_per_hour / offer.gpu_count for offer in mine)
    if vcpus is None:
        return None
    return min(offer.price_usd_per_hour / offer.vcpus for offer in mine) * vcpus


def held_usd(held_s: float, device_count: int, usd_per_hour: float | None) -> float | None:
    """Cost of holding ``device_count`` devices (GPUs, or CPU machines); None when they have no price."""
    return None if usd_per_hour is None else held_s / SECONDS_PER_HOUR * device_count * usd_per_hour
