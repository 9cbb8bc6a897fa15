"""A run that can be interrupted, as the formulas of this package see it.

All instances of a run are needed at once: the loss of one stops all, and all are requested again (what the
launchers that we write files for do). Interruptions come at a constant rate while instances are held,
starting up included (a Poisson process, as in Young 1974 and Daly 2006).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.cost.defaults import PROVISIONING_S
from planner.cost.hours import SECONDS_PER_HOUR
from planner.errors import PlannerError

WAIT_FACTOR = 6.0
"""The mean wait may turn out this much shorter or longer, as 5th and 95th percentile. Chosen on that record:
90% intervals for a later window, made from an earlier one, then hold 93% of the replayed runs; without, 69%
(`python -m benchmarks.spot.coverage`)."""

WALL_COVERAGE = (
    "On the one public record such 90% intervals held 94% of the runs that were replayed later, 76% in the "
    "worst window."
)
"""For the report, where the time on spot is explained (`python -m benchmarks.spot.coverage`: the wait is that
of all but the replayed window)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """From the request of instances to the first useful step, in named parts; all of it is billed.

    The time that a provider needs to find capacity comes before the request is granted, is not billed, and
    is not in here: it is ``SpotJob.wait_s``.
    """

    provisioning_s: float = PROVISIONING_S  # boot, driver, container image
    set_up_s: float = 0.0  # packages, data set, joining the cluster; 0 where nobody measured it
    load_s: float = 0.0  # reading the checkpoint; not on the first start
    start_up_s: float = 0.0  # building model, data and wrapper
    compile_s: float = 0.0  # torch.compile and lazy initialisation: what the first step takes longer

    @property
    def total_s(self) -> float:
        """Billed seconds of a restart from a checkpoint, loading it included."""
        return self.first_s + self.load_s

    @property
    def first_s(self) -> float:
        """Billed seconds of the first start, which has no checkpoint to load."""
        return self.provisioning_s + self.set_up_s + self.start_up_s + self.compile_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveCost:
    """What one checkpoint costs: training stands still for ``stall_s``; it survives after ``durable_s``.

    Both are the same for a synchronous save.
    """

    stall_s: float
    durable_s: float

    @classmethod
    def synchronous(cls, save_s: float) -> SaveCost:
        """A save of ``save_s`` seconds during which training waits until the checkpoint is on disk."""
        return cls(stall_s=save_s, durable_s=save_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """One run on spot instances.

    ``notice_saved_fraction`` is the share of interruptions whose notice is used for a save that is complete
    in time. The default of 0 is on the careful side: a notice is best effort.
    """

    work_s: float  # of useful steps, without checkpoints, start or interruption
    restart: Restart
    saving: SaveCost
    interruptions_per_s: float  # of all instances together, while they are held
    wait_s: float = 0.0  # mean time until capacity is found again; not billed
    notice_saved_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no run can have."""
        if self.work_s <= 0:
            raise PlannerError(f"a run of {self.work_s:g} s of work: it must be longer than zero")
        if min(self.interruptions_per_s, self.wait_s, self.saving.stall_s, self.restart.total_s) < 0:
            raise PlannerError("a rate or a time below zero: interruptions, wait, checkpoint and restart")
        if not 0 <= self.notice_saved_fraction <= 1:
            raise PlannerError(f"notice_saved_fraction {self.notice_saved_fraction:g}: it lies from 0 to 1")

    def with_work(self, work_s: float) -> SpotJob:
        """The same run with another amount of work."""
        return replace(self, work_s=work_s)


def gang_rate_per_s(rate_per_instance_hour: float, instance_count: int) -> float:
    """Interruptions per second of a run on ``instance_count`` instances, each lost on its own."""
    return rate_per_instance_hour * instance_count / SECONDS_PER_HOUR
