"""A run that has been priced: bill, times, and what interruptions mean for it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.bill.allin import AllInBill
from planner.cost.bill.energy import Energy
from planner.cost.spot.job import SaveCost, SpotJob
from planner.estimate.values import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRun:
    """What being interrupted means for a plan; where the rate is not known, nothing is known of that."""

    job: SpotJob
    work_s: Estimate  # steps and evaluations
    interruption_count: float | None = None  # mean
    cost_usd_p10: float | None = None  # of the rent: the luck of interruptions and the interval of the speed
    cost_usd_p90: float | None = None
    miss_probability: float | None = None  # None without a deadline, too
    is_rate_stated: bool = False  # by the user and not by the catalog
    break_even_rate_per_s: float | None = None  # up to which it is cheaper than the cheapest on-demand plan

    @property
    def interruptions_per_s(self) -> float | None:
        """Of all instances together while they are held; None where nobody knows."""
        return self.job.interruptions_per_s if self.is_rate_known else None

    @property
    def is_rate_known(self) -> bool:
        """Whether the cost has interruptions in it."""
        return self.interruption_count is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedRun:
    """A run on an offer: the bill, and how long it takes."""

    bill: AllInBill
    held_s: Estimate  # that the instances are held, and billed for
    duration_s: Estimate  # from the first request to the end, waits for capacity included
    checkpoint_interval_s: float
    saving: SaveCost
    spot: SpotRun | None  # None on demand
    energy: Energy | None  # None where no power was measured
