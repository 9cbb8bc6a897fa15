"""What a parallelism says of a step and its memory, as values: the estimates price them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class CollectiveOperation(StrEnum):
    """What the ranks do together."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    SEND = "send"  # from one rank to the next, as between pipeline stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks that communicate, spread evenly over nodes."""

    rank_count: int
    node_count: int = 1

    @property
    def ranks_per_node(self) -> int:
        """Of the fullest node."""
        return math.ceil(self.rank_count / self.node_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One collective of a round, ``count`` times."""

    collective: CollectiveOperation
    message_bytes: float  # of the whole tensor: all ranks' parts together
    count: int = 1
    group: Group | None = None  # of a mesh's dimension; None: all workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Equal rounds of exchanges: a bucket of gradients each, or a block of the model."""

    count: int = 0
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the workers of a layout exchange, and how often."""

    per_step: Rounds = Rounds()  # with the last micro batch
    per_micro_batch: Rounds = Rounds()
    is_known: bool = True  # False: nobody knows the model's size, and one bucket stands for it

    @property
    def collectives(self) -> frozenset[CollectiveOperation]:
        """What it is made of."""
        rounds = (*self.per_step.exchanges, *self.per_micro_batch.exchanges)
        return frozenset(one.collective for one in rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStep:
    """One worker's optimizer step with no one to wait for."""

    micro_batch_s: float  # forward and backward of one micro batch
    accumulation: int = 1  # micro batches per step
    per_step_s: float = 0.0  # once per step: optimizer (of its shard under FSDP2), clipping, host work


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Of the whole model on one worker, before any sharding; a trace has them all."""

    parameters: float
    gradients: float
    optimizer: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBytes:
    """What one rank holds of the state, and its copies of parts of it: buckets, gathered blocks."""

    parameters: float
    gradients: float
    optimizer: float
    copies: float = 0.0
