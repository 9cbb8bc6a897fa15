"""Trials that are running, and what has room beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.estimate.setting import technique_of
from trials.api import TrialConfig

HasRoom = Callable[[TrialConfig, Sequence[TrialConfig]], bool]
"""Whether a trial would begin at once beside these; said by who runs trials."""


def one_of_each_type(config: TrialConfig, running: Sequence[TrialConfig]) -> bool:
    """Where nobody says more: a type of device has one trial at a time."""
    return all(one.gpu != config.gpu for one in running)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrials:
    """Trials that have begun and whose outcome is not known."""

    configs: tuple[TrialConfig, ...] = ()
    has_room: HasRoom = one_of_each_type
    are_last: bool = False  # the winner is being compared or confirmed

    def have_room_for(self, config: TrialConfig) -> bool:
        """Whether a trial would begin at once."""
        return not self.configs or self.has_room(config, self.configs)

    def tell_of(self, config: TrialConfig) -> bool:
        """Whether one of them will say most of what a trial would: it differs in batch sizes only."""
        return any(technique_of(one) == technique_of(config) for one in self.configs)
