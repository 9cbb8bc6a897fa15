"""What a trial can measure besides its steps, and what comes of it. Imports no torch.

Each is measured once for each shape of workers, by the first trial of that shape that succeeds: it belongs to
the model, the storage and the links, and not to batch size or precision.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What is wanted besides the steps; nothing, unless asked for."""

    is_checkpoint_timed: bool = False
    is_whole_checkpoint_known: bool = False  # then a model is timed only where it is sharded
    checkpoint_directory: str | None = None  # None: the disk of the node that the worker runs on
    are_links_probed: bool = False  # of two workers or more
    is_noise_measured: bool = False  # of one worker
    noise_checkpoint: str | None = (
        None  # whose parameters the gradients are taken at; None: as trained so far
    )

    @property
    def is_nothing(self) -> bool:
        """Whether the trial is about its steps only."""
        return not (self.is_checkpoint_timed or self.are_links_probed or self.is_noise_measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCost:
    """Saving and loading one full checkpoint: medians over repeats, of several writers the slowest's."""

    directory: str
    size_bytes: int  # of all its files
    is_sharded: bool = False  # saved by all workers at once, each its part
    save_s: float  # synchronous: training waits so long
    async_stall_s: float  # asynchronous: training waits so long
    async_durable_s: float  # and so long after its beginning the checkpoint would survive
    load_s: float  # reading the file and putting it into module and optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnmeasured:
    """Why no checkpoint was timed, in words for a trial's warnings."""

    reason: str


class Collective(StrEnum):
    """What the ranks of a probe do together."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTimes:
    """Raw times of one collective at one message size: the slowest rank's, in order."""

    collective: Collective
    message_bytes: int  # of the whole tensor: all ranks' parts together
    times_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """Median time of the collective, in seconds."""
        return statistics.median(self.times_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProbe:
    """What a short probe of the links between a trial's workers took."""

    backend: str  # "nccl" or "gloo"
    rank_count: int
    node_count: int
    times: tuple[CollectiveTimes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientDraw:
    """Squared gradient norms of a few small batches (their mean) and of the large batch they make up."""

    small_square: float
    big_square: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNoise:
    """Gradients drawn again and again at the same parameters."""

    small_batch_size: int  # samples
    big_batch_size: int
    draws: tuple[GradientDraw, ...]
    checkpoint: str | None  # None: after the trial's own steps, shortly after initialisation


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
