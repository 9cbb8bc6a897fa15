"""Hours and dollars from step time and price: the only file with formulas of money.

A run holds ``instance_count`` instances from the request until the last step:

    duration_s = provisioning_s + step_count * step_time_s
    cost_usd   = billed_s / 3600 * price_usd_per_hour * instance_count

where ``billed_s`` is the duration rounded up to the provider's billing increment. A bill is kept as a
`Breakdown` of named terms, so that what a term adds is never hidden in a total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from catalogs.gpus import DeviceKind, Gpu
from catalogs.offers import Offer, Pricing
from planner.estimate.values import Basis, Estimate
from planner.target import Target

SECONDS_PER_HOUR = 3600.0

PROVISIONING_S = 300.0
"""From the request of an instance until the first step, where the user does not say: boot, driver and
container image. Five minutes is our assumption, on the careful side for a cached image; a measured value
belongs in its place."""

_ROUNDING_SLACK = 1e-9  # so that a budget of exactly n blocks buys n blocks in floating point


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTerm:
    """One named part of a bill, in dollars at the low, expected and high end of the step time."""

    name: str
    low_usd: float
    expected_usd: float
    high_usd: float
    formula: str  # in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Terms that add up exactly to the total.

    The terms move together (a slower step makes all of them dearer), so bounds add up as well.
    """

    terms: tuple[CostTerm, ...]
    basis: Basis  # of the step time

    @property
    def total_usd(self) -> Estimate:
        """The sum of all terms."""
        return Estimate(
            low=math.fsum(one.low_usd for one in self.terms),
            expected=math.fsum(one.expected_usd for one in self.terms),
            high=math.fsum(one.high_usd for one in self.terms),
            basis=self.basis,
        )

    def plus(self, term: CostTerm) -> Breakdown:
        """The same bill with one more term."""
        return replace(self, terms=(*self.terms, term))


def run_duration_s(target: Target, step_time_s: Estimate, provisioning_s: float = PROVISIONING_S) -> Estimate:
    """Seconds from the request of the instances to the last step."""
    return _each(step_time_s, lambda step_s: provisioning_s + target.step_count * step_s)


def run_cost(
    offer: Offer, instance_count: int, duration_s: Estimate, provisioning_s: float = PROVISIONING_S
) -> Breakdown:
    """The bill of holding ``instance_count`` instances for ``duration_s``, ``provisioning_s`` of it idle."""
    usd_per_s = hourly_usd(offer, instance_count) / SECONDS_PER_HOUR
    provisioning_usd = provisioning_s * usd_per_s
    training = _each(duration_s, lambda held_s: billed_s(offer, held_s) * usd_per_s - provisioning_usd)
    is_rounded = offer.billing_increment_s > 1
    rounding = f", rounded up to blocks of {offer.billing_increment_s} s" if is_rounded else ""
    return Breakdown(
        terms=(
            CostTerm(
                name="provisioning",
                low_usd=provisioning_usd,
                expected_usd=provisioning_usd,
                high_usd=provisioning_usd,
                formula="time until the first step x price x instances",
            ),
            CostTerm(
                name="training",
                low_usd=training.low,
                expected_usd=training.expected,
                high_usd=training.high,
                formula=f"steps x step time x price x instances{rounding}",
            ),
        ),
        basis=duration_s.basis,
    )


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
    return CostTerm(
        name="sweep",
        low_usd=spent_usd,
        expected_usd=spent_usd,
        high_usd=spent_usd,
        formula="time that trials held their devices x catalog price",
    )


def hourly_usd(offer: Offer, instance_count: int) -> float:
    """Dollars per hour for all instances."""
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
    provisioning_s: float = PROVISIONING_S,
    *,
    spent_usd: float = 0.0,
) -> int:
    """The most samples that budget and deadline leave room for at ``step_time_s`` a step; 0 when none."""
    held_s = math.inf
    if target.deadline_s is not None:
        held_s = target.deadline_s
    if target.budget_usd is not None:
        block_usd = hourly_usd(offer, instance_count) / SECONDS_PER_HOUR * offer.billing_increment_s
        blocks = math.floor((target.budget_usd - spent_usd) / block_usd + _ROUNDING_SLACK)
        held_s = min(held_s, blocks * offer.billing_increment_s)
    if math.isinf(held_s):
        return target.samples
    steps = math.floor((held_s - provisioning_s) / step_time_s + _ROUNDING_SLACK)
    return max(0, min(target.samples, steps * target.global_batch_size))


def device_usd_per_hour(offers: Iterable[Offer], gpu: Gpu, vcpus: int | None = None) -> float | None:
    """What an hour of one GPU, or of a machine with ``vcpus``, costs on demand where it is cheapest.

    An instance's price is shared equally by its GPUs, or by its vCPUs when it has none. None when the
    catalog does not price the device, or when the vCPUs to be priced are unknown.
    """
    mine = [one for one in offers if one.gpu == gpu.name and one.pricing is Pricing.ON_DEMAND]
    if not mine:
        return None
    if gpu.kind is DeviceKind.GPU:
        return min(one.price_usd_per_hour / one.gpu_count for one in mine)
    if vcpus is None:
        return None
    return min(one.price_usd_per_hour / one.vcpus for one in mine) * vcpus


def held_usd(held_s: float, device_count: int, usd_per_hour: float | None) -> float | None:
    """Cost of holding ``device_count`` devices (GPUs, or CPU machines); None when they have no price."""
    return None if usd_per_hour is None else held_s / SECONDS_PER_HOUR * device_count * usd_per_hour


def _each(estimate: Estimate, formula: Callable[[float], float]) -> Estimate:
    """A rising ``formula`` of the low, expected and high end."""
    return Estimate(
        low=formula(estimate.low),
        expected=formula(estimate.expected),
        high=formula(estimate.high),
        basis=estimate.basis,
    )
