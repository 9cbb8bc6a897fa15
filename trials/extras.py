"""What a trial can measure besides its steps, and what comes of it. Imports no torch.

Each is measured once for each shape of workers, by the first trial of that shape that succeeds: it belongs to
the model, the storage and the links, and not to batch size or precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What is wanted besides the steps; nothing, unless asked for."""

    is_checkpoint_timed: bool = False
    checkpoint_directory: str | None = None  # None: the disk of the node that the worker runs on

    @property
    def is_nothing(self) -> bool:
        """Whether the trial is about its steps only."""
        return not self.is_checkpoint_timed


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCost:
    """Saving and loading one full checkpoint: medians over repeats, of several writers the slowest's."""

    directory: str
    size_bytes: int  # of all its files
    save_s: float  # synchronous: training waits so long
    async_stall_s: float  # asynchronous: training waits so long
    async_durable_s: float  # and so long after its beginning the checkpoint would survive
    load_s: float  # reading the file and putting it into module and optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnmeasured:
    """Why there is no cost."""

    reason: str


def slowest(costs: Sequence[CheckpointCost]) -> CheckpointCost | None:
    """One checkpoint of what its writers measured at the same time; None of none."""
    if not costs:
        return None
    return replace(
        costs[0],
        size_bytes=sum(one.size_bytes for one in costs),
        save_s=max(one.save_s for one in costs),
        async_stall_s=max(one.async_stall_s for one in costs),
        async_durable_s=max(one.async_durable_s for one in costs),
        load_s=max(one.load_s for one in costs),
    )
