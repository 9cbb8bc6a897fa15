"""One worker, which has no one to talk to."""

from __future__ import annotations

from planner.modes.parallelism import Parallelism
from planner.modes.precision import Precision
from planner.modes.terms import Group, Traffic
from trials.api import WorkloadProfile


class Single(Parallelism):
    """The whole model on one worker."""

    name = "single"
    label = ""
    plainness = 0

    def takes(self, group: Group) -> bool:
        return group.rank_count == 1

    def traffic(self, profile: WorkloadProfile | None, group: Group, precision: Precision) -> Traffic:
        return Traffic()


MODES = (Single(),)
