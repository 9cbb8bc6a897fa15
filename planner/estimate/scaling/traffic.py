"""What data-parallel workers exchange in one synchronisation, and how long it takes with nothing hidden."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.estimate.scaling.collectives import CollectiveOperation, Fabric, Group, collective_s
from trials.trial import Parallelism

DDP_BUCKET_BYTES = 25 * 1024**2  # torch.nn.parallel.DistributedDataParallel bucket_cap_mb


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one synchronisation exchanges; the bytes are those of the whole model."""

    gradient_bytes: float | None  # as they are reduced; None where nobody knows the model's size
    parameter_bytes: float = 0.0  # as FSDP2 gathers them; 0 under DDP
    message_count: int = 1  # collectives per pass: buckets of DDP, blocks of FSDP2
    gather_count: int = 2  # of the parameters per micro batch; 1 if they stay after the forward pass


def ddp_traffic(trainable_parameter_count: int, bytes_per_gradient: int = 4) -> Traffic:
    """Gradients of DDP in buckets of 25 MiB."""
    gradient_bytes = float(trainable_parameter_count * bytes_per_gradient)
    return Traffic(
        gradient_bytes=gradient_bytes, message_count=max(1, math.ceil(gradient_bytes / DDP_BUCKET_BYTES))
    )


def fsdp2_traffic(
    parameter_count: int,
    block_count: int,
    *,
    bytes_per_parameter: int,
    bytes_per_gradient: int,
    is_resharded_after_forward: bool = True,
) -> Traffic:
    """Parameters and gradients of FSDP2, gathered and scattered block by block (the root is one more)."""
    return Traffic(
        gradient_bytes=float(parameter_count * bytes_per_gradient),
        parameter_bytes=float(parameter_count * bytes_per_parameter),
        message_count=block_count + 1,
        gather_count=2 if is_resharded_after_forward else 1,
    )


def synchronisation_s(parallelism: Parallelism, traffic: Traffic, group: Group, fabric: Fabric) -> float:
    """Seconds of one synchronisation: per optimizer step under DDP, per micro batch under FSDP2.

    Unknown gradients count as one bucket; what they really are is for measurement to say.
    """
    if group.rank_count <= 1 or parallelism is Parallelism.SINGLE:
        return 0.0
    gradients = float(DDP_BUCKET_BYTES) if traffic.gradient_bytes is None else traffic.gradient_bytes
    count = traffic.message_count
    if parallelism is Parallelism.DDP:
        return count * collective_s(CollectiveOperation.ALL_REDUCE, gradients / count, group, fabric)
    scatter_s = collective_s(CollectiveOperation.REDUCE_SCATTER, gradients / count, group, fabric)
    gather_s = collective_s(CollectiveOperation.ALL_GATHER, traffic.parameter_bytes / count, group, fabric)
    return count * (scatter_s + traffic.gather_count * gather_s)
