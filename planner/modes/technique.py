"""What a technique is to the planner: what trades memory, speed or compile time, whatever the parallelism."""

from __future__ import annotations

from typing import ClassVar

from catalogs.gpus import Gpu
from planner.modes.terms import RankBytes, Traffic
from trials.api import WorkloadProfile


class Technique:
    """One technique; a subclass states what differs from one that changes nothing."""

    name: ClassVar[str]  # also its dimension in the study
    label: ClassVar[str]  # in reports
    short_label: ClassVar[str]  # in a table's cell
    plainness: ClassVar[int]
    needs: ClassVar[tuple[str, ...]] = ()  # of the node's software, such as "C compiler"
    is_traced: ClassVar[bool] = False  # changes the operations of a step, and what is kept of them
    has_own_numerics: ClassVar[bool] = False  # must be seen to train as the reference does
    has_own_start: ClassVar[bool] = False  # changes how long the first step takes
    is_shown_first: ClassVar[bool] = False  # planned only where a trial has shown that it works
    time_factor: ClassVar[float] = 1.0  # of a micro batch, where neither trials nor traces tell
    log_spread: ClassVar[float] = 0.0  # of that factor
    unlikeness: ClassVar[float] = 0.1  # rough log spread of the way from a trial without it

    @property
    def order(self) -> tuple[int, ...]:
        """Plainest first."""
        return (self.plainness,)

    @property
    def knob(self) -> str:
        """What it is a value of: of one knob's techniques at most one is on. Its own, unless said."""
        return self.name

    def refusal(self, gpu: Gpu, profile: WorkloadProfile, *, is_asked: bool) -> str:
        """Why it is not tried with this model on ``gpu``; "" where it is.

        Args:
            gpu: of the catalog.
            profile: what is known of the model.
            is_asked: whether somebody asked for it by name, or a trial has shown it.
        """
        return ""

    def goes_with(self, parallelism: str, precision: str) -> bool:
        """Whether a configuration may have all three."""
        return True

    def traffic(self, traffic: Traffic) -> Traffic:
        """What the workers exchange with it, of what they do without."""
        return traffic

    def rank_bytes(self, held: RankBytes) -> RankBytes:
        """What a rank holds of the state with it, of what it does without."""
        return held
