"""DistributedDataParallel: a copy of the model on each worker, gradients all-reduced once per step."""

from __future__ import annotations

import math
from dataclasses import replace

from planner.modes.parallelism import UNKNOWN_BYTES, Parallelism
from planner.modes.precision import FULL_BYTES, Precision
from planner.modes.terms import CollectiveOperation, Exchange, Group, RankBytes, Rounds, StateBytes, Traffic
from trials.api import WorkloadProfile

BUCKET_BYTES = 25 * 1024**2  # torch.nn.parallel.DistributedDataParallel bucket_cap_mb


class Ddp(Parallelism):
    """Buckets of 25 MiB, reduced while the backward pass goes on."""

    name = "ddp"
    label = "DDP"
    plainness = 1
    keeps_gradients = True  # in the buckets
    overlap = 1.6
    overlap_factor = 1.5

    def rank_bytes(
        self, state: StateBytes, group: Group, block_count: int, precision: Precision
    ) -> RankBytes:
        """Buckets are as many bytes as the gradients, with or without gradient_as_bucket_view."""
        whole = super().rank_bytes(state, group, block_count, precision)
        return replace(whole, copies=state.gradients if group.rank_count > 1 else 0.0)

    def traffic(self, profile: WorkloadProfile | None, group: Group, precision: Precision) -> Traffic:
        return gradient_traffic(None if profile is None else profile.trainable_parameter_count)


def gradient_traffic(trainable_count: int | None, bytes_per_gradient: int = FULL_BYTES) -> Traffic:
    """All gradients reduced once per step, in buckets; of an unknown number as one."""
    gradient_bytes = UNKNOWN_BYTES if trainable_count is None else float(trainable_count * bytes_per_gradient)
    count = max(1, math.ceil(gradient_bytes / BUCKET_BYTES))
    exchange = Exchange(collective=CollectiveOperation.ALL_REDUCE, message_bytes=gradient_bytes / count)
    return Traffic(per_step=Rounds(count=count, exchanges=(exchange,)), is_known=trainable_count is not None)


MODES = (Ddp(),)
