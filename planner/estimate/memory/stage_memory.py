"""Peak memory of a stage under tensor, pipeline and data parallelism, as Megatron-DeepSpeed keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.estimate.memory.breakdown import (
    CUDA_CONTEXT_BYTES,
    FP32_BYTES,
    FRAGMENTATION_FRACTION,
    HALF_BYTES,
    MemoryBreakdown,
    communicator_bytes,
)
from planner.estimate.scaling.collectives import Transport
from planner.estimate.scaling.layout import Layout, TransformerShape
from planner.estimate.scaling.pipeline import activation_bytes_per_layer


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronState:
    """How Megatron-DeepSpeed keeps a parameter; bytes per parameter of a stage."""

    element_bytes: int = HALF_BYTES  # of parameters, gradients and activations
    zero_stage: int = 0
    optimizer_bytes: float = 12.0  # Adam's moments and, in half precision, the fp32 copy; 8 in fp32
    bucket_bytes: float = (
        4.0  # gradients flattened for the all-reduce in buckets of 500 M elements: one block
    )
    temporary_bytes: float = 4.0  # of the optimizer: one fp32 value
    communicator_count: int = 5  # Megatron's world, tensor, data and pipeline groups, DeepSpeed's own tensor


def megatron_memory(
    shape: TransformerShape,
    layout: Layout,
    stage_layers: Sequence[int],
    state: MegatronState,
    transport: Transport,
) -> MemoryBreakdown:
    """Peak of the fullest rank under tensor, pipeline and data parallelism.

    Args:
        shape: the transformer.
        layout: degrees, batch, recomputation.
        stage_layers: transformer layers of each stage; the embedding is on the first, the head on the last.
        state: bytes per parameter and communicators.
        transport: between the tensor-parallel ranks.
    """
    stages = (
        _stage_memory(shape, layout, index, layers, len(stage_layers), state, transport)
        for index, layers in enumerate(stage_layers)
    )
    return max(stages, key=lambda one: one.total_bytes)


def _stage_memory(
    shape: TransformerShape,
    layout: Layout,
    index: int,
    layers: int,
    stage_count: int,
    state: MegatronState,
    transport: Transport,
) -> MemoryBreakdown:
    is_first, is_last = index == 0, index == stage_count - 1
    tables = shape.vocabulary_size * shape.hidden_size * (int(is_first) + int(is_last))
    positions = shape.sequence_length * shape.hidden_size if is_first else 0
    parameters = (layers * shape.parameters_per_layer + tables) / layout.tensor + positions
    shard = [layout.data if state.zero_stage >= stage else 1 for stage in (3, 2, 1)]
    in_flight = min(layout.micro_batch_count, stage_count - index)
    activations = in_flight * layers * _kept_per_layer(shape, layout, state.element_bytes)
    tokens = layout.micro_batch_size * shape.sequence_length
    if layout.is_checkpointed:
        activations += activation_bytes_per_layer(shape, layout, state.element_bytes)  # one, recomputed
    if is_first:
        activations += in_flight * tokens * shape.hidden_size * (state.element_bytes + 1)  # dropout's mask
    if is_last:
        logits = tokens * shape.vocabulary_size / layout.tensor
        activations += logits * (state.element_bytes + 2 * FP32_BYTES)  # and softmax, gradient in fp32
    breakdown = MemoryBreakdown(
        parameters=state.element_bytes * parameters / shard[0],
        gradients=state.element_bytes * parameters / shard[1],
        optimizer=state.optimizer_bytes * parameters / shard[2],
        activations=activations,
        copies=(state.bucket_bytes + state.temporary_bytes) * parameters,
    )
    return replace(
        breakdown,
        fragmentation=FRAGMENTATION_FRACTION * breakdown.total_bytes,
        communicators=communicator_bytes(transport, state.communicator_count),
        context=float(CUDA_CONTEXT_BYTES),
    )


def _kept_per_layer(shape: TransformerShape, layout: Layout, element_bytes: int) -> float:
    if layout.is_checkpointed:
        return float(element_bytes * layout.micro_batch_size * shape.sequence_length * shape.hidden_size)
    return activation_bytes_per_layer(shape, layout, element_bytes)
