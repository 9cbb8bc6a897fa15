"""When spot instances can be had, and for how long."""

from __future__ import annotations

import math
import random
from typing import Protocol


class InterruptionProcess(Protocol):
    """Availability of all instances of a run together. Times of successive questions never decrease."""

    def available_at_s(self, time_s: float) -> float:
        """The first moment from ``time_s`` on at which they can be had; infinite if never."""
        ...

    def interrupted_at_s(self, time_s: float) -> float:
        """When instances that were taken at ``time_s``, a moment at which they can be had, are lost."""
        ...


class PoissonInterruptions:
    """Constant rate of interruptions, exponential waits; capacity is there at the start.

    The market goes its way whether or not the run holds instances in it.
    """

    def __init__(self, interruptions_per_s: float, wait_s: float, chance: random.Random) -> None:
        self._rate = interruptions_per_s
        self._wait_s = wait_s
        self._chance = chance
        self._from_s = 0.0
        self._until_s = self._lifetime_s()

    def available_at_s(self, time_s: float) -> float:
        """The first moment from ``time_s`` on, in seconds, at which there is capacity."""
        while self._until_s <= time_s:
            self._from_s = self._until_s
            if self._wait_s > 0:
                self._from_s += self._chance.expovariate(1 / self._wait_s)
            self._until_s = self._from_s + self._lifetime_s()
        return max(time_s, self._from_s)

    def interrupted_at_s(self, time_s: float) -> float:
        """When instances that run at ``time_s`` will be taken away, in seconds; infinite for never."""
        assert self._from_s <= time_s < self._until_s
        return self._until_s

    def _lifetime_s(self) -> float:
        return self._chance.expovariate(self._rate) if self._rate > 0 else math.inf
