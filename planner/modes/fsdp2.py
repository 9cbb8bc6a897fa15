"""FSDP2: parameters, gradients and optimizer state divided among the workers, gathered block by block."""

from __future__ import annotations

from catalogs.gpus import Gpu
from planner.modes.parallelism import NO_BLOCKS, UNKNOWN_BYTES, Parallelism
from planner.modes.precision import FULL_BYTES, Precision
from planner.modes.terms import CollectiveOperation, Exchange, Group, RankBytes, Rounds, StateBytes, Traffic
from trials.api import WorkloadProfile


class Fsdp2(Parallelism):
    """Full sharding: each block is gathered for the forward and again for the backward pass.

    Each waits for its own parameters with one block of prefetch, and the copies share SMs and memory with
    the compute, so little is hidden.
    """

    name = "fsdp2"
    label = "FSDP2"
    plainness = 2
    is_sharded = True
    overlap = 1.15
    overlap_factor = 1.15

    def refusal(self, gpu: Gpu, profile: WorkloadProfile) -> str:
        return "" if profile.block_count else NO_BLOCKS

    def shards(self, group: Group) -> int:
        return group.rank_count

    def rank_bytes(
        self, state: StateBytes, group: Group, block_count: int, precision: Precision
    ) -> RankBytes:
        """A shard of the state, the block in use and the next one gathered, one block's whole gradients.

        Gathered in the precision of the passes, reduced in fp32. Without blocks the whole model at once.
        """
        shards, copies = group.rank_count, 0.0
        gathered = state.parameters * precision.element_bytes / FULL_BYTES
        if shards > 1 and block_count > 0:
            copies = 2.0 * gathered / block_count + state.gradients / block_count
        elif shards > 1:
            copies = gathered + state.gradients
        return RankBytes(
            parameters=state.parameters / shards,
            gradients=state.gradients / shards,
            optimizer=state.optimizer / shards,
            copies=copies,
        )

    def traffic(self, profile: WorkloadProfile | None, group: Group, precision: Precision) -> Traffic:
        if profile is None:
            return sharded_traffic(None, 0)
        return sharded_traffic(
            profile.parameter_count, profile.block_count, bytes_per_parameter=precision.element_bytes
        )


def sharded_traffic(
    parameter_count: int | None,
    block_count: int,
    *,
    bytes_per_parameter: int = FULL_BYTES,
    bytes_per_gradient: int = FULL_BYTES,
    is_resharded_after_forward: bool = True,
) -> Traffic:
    """Parameters gathered and gradients scattered in every micro batch, block by block; the root is one more.

    Of an unknown number, one bucket of gradients stands for all.
    """
    count = block_count + 1 if parameter_count is not None else 1
    gradient_bytes = UNKNOWN_BYTES if parameter_count is None else float(parameter_count * bytes_per_gradient)
    parameter_bytes = float((parameter_count or 0) * bytes_per_parameter)
    scatter = Exchange(collective=CollectiveOperation.REDUCE_SCATTER, message_bytes=gradient_bytes / count)
    gather = Exchange(
        collective=CollectiveOperation.ALL_GATHER,
        message_bytes=parameter_bytes / count,
        count=2 if is_resharded_after_forward else 1,
    )
    return Traffic(
        per_micro_batch=Rounds(count=count, exchanges=(scatter, gather)), is_known=parameter_count is not None
    )


MODES = (Fsdp2(),)
