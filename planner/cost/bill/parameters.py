"""What a whole bill needs to know beyond step time and price, with defaults that the user can override."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from planner.cost.hours import PROVISIONING_S
from planner.cost.spot.job import WAIT_S
from planner.errors import PlannerError

STORAGE_USD_PER_GIB_MONTH = 0.023
"""S3 Standard in us-east-1, first 50 TB (aws.amazon.com/s3/pricing, 2026); others ask 0.015 (Cloudflare R2,
Nebius) to 0.06 (CoreWeave, hot)."""

ON_DEMAND_SAVE_INTERVAL_S = 3600.0
"""Between two checkpoints on demand: no provider takes the instance away, but machines and programs fail."""

_NOT_NEGATIVE = (
    *("provisioning_s", "set_up_s", "start_up_s", "compile_s", "evaluation_s", "checkpoint_stall_s"),
    *("data_bytes", "transfer_count", "checkpoint_bytes", "checkpoints_kept"),
    *("storage_usd_per_gib_month", "egress_usd_per_gib", "sweep_usd"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllIn:
    """What the bill needs to know beyond step time and price; None and 0 are not charged.

    Times are of one start of the run; a trial measures start-up, compilation and checkpoint pauses. The count
    of checkpoints follows from their interval, which is of steps and evaluations.
    """

    provisioning_s: float = PROVISIONING_S  # boot, driver, container image
    set_up_s: float = 0.0  # packages, copying the data set, joining the cluster: measured by nobody
    start_up_s: float = 0.0  # building model, data and wrapper
    compile_s: float = 0.0  # what the first step takes longer: torch.compile and lazy initialisation
    evaluation_s: float = 0.0  # all evaluations of the run together
    checkpoint_stall_s: float = 0.0  # of one save
    checkpoint_interval_s: float | None = None  # None: one checkpoint, at the end
    data_bytes: int | None = None  # of the data set; None: unknown, transfer and storage are not charged
    data_provider: str | None = None  # where it lies; None: downloading it costs nobody anything
    data_region: str | None = None
    egress_usd_per_gib: float | None = None  # None: the provider's price for the way
    transfer_count: float = 1.0  # how often it is fetched: every start of the instances fetches it again
    checkpoint_source: str = "stated by you"  # where stall and size come from
    checkpoint_bytes: int | None = None  # of one checkpoint; None: unknown, its storage is not charged
    checkpoints_kept: int = 2
    storage_usd_per_gib_month: float | None = STORAGE_USD_PER_GIB_MONTH  # None: storage costs nothing
    sweep_usd: float | None = None  # spent on trials; None where their devices have no price

    def __post_init__(self) -> None:
        """Refuse what no run can have."""
        if self.checkpoint_interval_s is not None and self.checkpoint_interval_s <= 0:
            raise PlannerError(
                f"checkpoint_interval_s {self.checkpoint_interval_s:g}: it must be more than zero"
            )
        for name in _NOT_NEGATIVE:
            if (getattr(self, name) or 0) < 0:
                raise PlannerError(f"{name} {getattr(self, name):g}: it must not be negative")

    @property
    def start_s(self) -> float:
        """From the request of the instances to the first useful step."""
        return self.provisioning_s + self.set_up_s + self.start_up_s + self.compile_s

    def checkpoint_count(self, training_s: float) -> int:
        """Checkpoints in ``training_s`` of steps and their evaluations, the last one at the end."""
        if self.checkpoint_interval_s is None:
            return 1
        work_s = training_s + self.evaluation_s
        return max(1, math.ceil(work_s / self.checkpoint_interval_s - 1e-9))

    def held_s(self, training_s: float) -> float:
        """How long the instances are held for ``training_s`` of steps."""
        pauses_s = self.evaluation_s + self.checkpoint_count(training_s) * self.checkpoint_stall_s
        return self.start_s + training_s + pauses_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the user says of the bill, each with a default; see `AllIn` for what is charged."""

    all_in: AllIn = field(default_factory=AllIn)
    interruptions_per_hour: float | None = None  # of one spot instance, where the catalog does not know
    checkpoint_bytes_per_s: float | None = None  # None: as measured in a trial, else assumed
    save_interval_s: float = ON_DEMAND_SAVE_INTERVAL_S  # where nothing is known to interrupt
    spot_wait_s: float = WAIT_S  # mean, until spot capacity is found again
    grid_g_per_kwh: float | None = None  # CO2 equivalent where the instances stand
