"""The answer as a value: what to rent, what else there is, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from planner.cost.bill.price_run import Terms
from planner.cost.spot.policy import PolicyChoice
from planner.filters import Filters
from planner.plans.candidates import NoConfig
from planner.plans.explain import Comparison, Shortfall
from planner.plans.plan import Plan
from planner.plans.sensitivity import Sensitivity
from planner.plans.time_value import TimeValue
from planner.plans.value_of_information import UsefulTrial
from planner.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Offers that carry no plan, and why."""

    reason: str
    offer_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Offers of one device type that carry no plan, and why."""

    gpu: str
    reason: str
    offer_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StalePrices:
    """Considered offers whose prices are older than such prices keep."""

    on_demand_count: int  # reserved ones included
    spot_count: int
    oldest: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The answer: what to rent, what else there is, and how sure that is.

    ``plans`` has the best configuration of every offer and instance count, cheapest first. ``winner`` is the
    cheapest one within budget and deadline at the high end of its interval, or a faster one that cannot be
    told apart from it in cost; a spot instance of unknown interruptions only where nothing else is. Without
    one, ``nearest`` and ``shortfall`` say what would have to give, or ``least_memory`` what memory would be
    needed when not even one plan exists.
    """

    terms: Terms
    filters: Filters
    plans: tuple[Plan, ...]
    winner: Plan | None
    nearest: Plan | None
    shortfall: Shortfall | None
    comparison: Comparison | None
    policies: PolicyChoice | None  # ways to rent the best plan's instances; None with only one
    frontier: tuple[Plan, ...]  # of those within limits: nothing is both cheaper and faster; fastest first
    time_values: tuple[TimeValue, ...]  # which plan within the limits is best, by what an hour is worth
    sensitivities: tuple[Sensitivity, ...]  # of the winner
    settling: tuple[UsefulTrial, ...]  # what would settle the predictions that decide, the most useful first
    is_gpu_measured: bool
    measured_gpus: tuple[str, ...]  # catalog names, CPU classes included
    unpriced_gpus: tuple[str, ...]  # measured, but no offer in the catalog has them
    left_out: tuple[LeftOut, ...]  # offers that carry no plan, by device type
    too_small: Mapping[str, NoConfig]  # by device type: the nearest to fitting where it does not
    stale_prices: StalePrices | None
    offer_count: int  # in the catalog

    @property
    def target(self) -> Target:
        """The run, its budget and deadline."""
        return self.terms.target

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        return self.terms.confidence

    @property
    def sweep_usd(self) -> float | None:
        """Spent on trials so far; None where their devices have no price."""
        return self.terms.sweep_usd

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """The offers that carry no plan, by reason."""
        counts = Counter[str]()
        for one in self.left_out:
            counts[one.reason] += one.offer_count
        in_order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return tuple(SetAside(reason=reason, offer_count=count) for reason, count in in_order)

    @property
    def least_memory(self) -> NoConfig | None:
        """What would be needed where nothing carries a plan: of the device nearest to fitting."""
        return (
            None if self.plans else min(self.too_small.values(), key=lambda one: one.shortage, default=None)
        )

    @property
    def best(self) -> Plan | None:
        """The winner, or the nearest plan when nothing fits."""
        return self.winner or self.nearest

    @property
    def useful_trial(self) -> UsefulTrial | None:
        """The trial whose result is worth most after its own price."""
        return self.settling[0] if self.settling else None
