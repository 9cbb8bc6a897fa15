"""What a whole bill needs to know beyond step time and price: what is stated, and what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.cost.defaults import (
    ON_DEMAND_SAVE_INTERVAL_S,
    PROVISIONING_S,
    STORAGE_USD_PER_GIB_MONTH,
    WAIT_S,
)
from planner.errors import PlannerError
from planner.flags import GIB, GIB_PER_S, MINUTES, NUMBER_OR_ZERO, SOME_MINUTES, TEXT, USD_OR_ZERO, flag

PANEL = "Costs on top of rent"
_NOT_NEGATIVE = (
    *("provisioning_s", "set_up_s", "start_up_s", "compile_s", "evaluation_s", "checkpoint_stall_s"),
    *("data_bytes", "transfer_count", "checkpoint_bytes", "checkpoints_kept"),
    *("storage_usd_per_gib_month", "egress_usd_per_gib", "sweep_usd"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAssumptions:
    """What the bill needs to know beyond step time and price; None and 0 are not charged.

    The fields with a flag are the user's to state; the others follow from trials. Times are of one start of
    the run. The count of checkpoints follows from their interval, which is of steps and evaluations.
    """

    provisioning_s: float = flag(  # boot, driver, container image
        "--provisioning-minutes",
        MINUTES,
        "From requesting an instance until it is up: boot, driver, container image.",
        default=PROVISIONING_S,
        panel=PANEL,
    )
    set_up_s: float = flag(  # measured by nobody
        "--setup-minutes",
        MINUTES,
        "Installing packages, fetching data and joining the cluster, at each start.",
        default=0.0,
        panel=PANEL,
    )
    evaluation_s: float = flag(
        "--evaluation-minutes",
        MINUTES,
        "All evaluations of the whole run together.",
        default=0.0,
        panel=PANEL,
    )
    data_bytes: int | None = flag(
        "--data-gib", GIB, "Size of the data set: 500, 500GB, 1.5TiB.", shown="not charged", panel=PANEL
    )
    data_from: str | None = flag(
        "--data-from",
        TEXT,
        "Where the data set lies: aws, or aws/us-east-1. That provider's egress price is charged.",
        shown="where fetching is free",
        panel=PANEL,
        metavar="PROVIDER[/REGION]",
    )
    egress_usd_per_gib: float | None = flag(
        "--egress-price",
        USD_OR_ZERO,
        "US dollars per GiB, each time the data set is fetched.",
        shown="that of --data-from",
        panel=PANEL,
    )
    storage_usd_per_gib_month: float | None = flag(  # None: storage costs nothing
        "--storage-price",
        USD_OR_ZERO,
        "US dollars per GiB and month, for the data set and checkpoints.",
        default=STORAGE_USD_PER_GIB_MONTH,
        panel=PANEL,
    )
    checkpoint_bytes_per_s: float | None = flag(
        "--checkpoint-gib-per-s",
        GIB_PER_S,
        "GiB per second at which checkpoints are saved.",
        shown="as measured, else 0.5",
        panel=PANEL,
    )
    save_interval_s: float = flag(  # where nothing is known to interrupt
        "--checkpoint-minutes",
        SOME_MINUTES,
        "Between two checkpoints on demand; on spot the interval is computed from the interruptions.",
        default=ON_DEMAND_SAVE_INTERVAL_S,
        panel=PANEL,
    )
    spot_wait_s: float = flag(
        "--spot-wait-minutes",
        MINUTES,
        "Average wait until spot capacity is available again.",
        default=WAIT_S,
        panel=PANEL,
    )
    interruptions_per_hour: float | None = flag(
        "--interruptions-per-hour",
        NUMBER_OR_ZERO,
        "Of one spot instance, where the catalog has no rate.",
        shown="unknown",
        panel=PANEL,
    )
    grid_g_per_kwh: float | None = flag(  # CO2 equivalent where the instances stand
        "--grid-g-per-kwh",
        NUMBER_OR_ZERO,
        "Grams of CO2 per kWh of electricity, where the instances stand.",
        shown="no CO2",
        panel=PANEL,
    )
    start_up_s: float = 0.0  # building model, data and wrapper
    compile_s: float = 0.0  # what the first step takes longer: torch.compile and lazy initialisation
    checkpoint_stall_s: float = 0.0  # of one save
    checkpoint_interval_s: float | None = None  # None: one checkpoint, at the end
    checkpoint_source: str = "stated by you"  # where stall and size come from
    checkpoint_bytes: int | None = None  # of one checkpoint; None: unknown, its storage is not charged
    checkpoints_kept: int = 2
    transfer_count: float = 1.0  # how often the data set is fetched: by every start of the instances
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
    def data_provider(self) -> str | None:
        """Where the data set lies; None: downloading it costs nobody anything."""
        return (self.data_from or "").partition("/")[0].lower() or None

    @property
    def data_region(self) -> str | None:
        """The region of that provider, where it was said."""
        return (self.data_from or "").partition("/")[2] or None

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
