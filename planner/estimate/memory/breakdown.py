"""Peak memory of one rank, part by part, and an upper bound for "does it fit".

The parts, and where they come from:

* parameters, gradients, optimizer state: bytes per parameter by precision and optimizer, divided among
  workers under FSDP2 (all three) and ZeRO (stage 1 optimizer, 2 and gradients, 3 and parameters; Rajbhandari
  et al. 2020);
* copies: DDP's buckets (as many bytes as the gradients), the
  blocks that FSDP2 holds unsharded, temporaries of the optimizer;
* activations: from a trace, or Korthikanti et al. (2022) for transformers, times the micro batches that 1F1B
  keeps in flight (p - i at stage i);
* what the caching allocator reserves and cannot use (blocks of 512 B, 2 MiB and 20 MiB, fragmentation);
* outside the allocator: the CUDA context and NCCL's channel buffers, once per communicator.

Fits are checked against the upper bound: "it fits" when it does not costs a failed run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from enum import StrEnum

from planner.estimate.scaling.collectives import Transport
from planner.modes import PARALLELISMS, PRECISIONS, TECHNIQUES
from planner.modes.precision import REFERENCE
from planner.modes.terms import Group, StateBytes

MIB = 1024**2
FP32_BYTES = 4
HALF_BYTES = 2

CUDA_CONTEXT_BYTES = 500 * MIB
"""Driver, kernels of PyTorch, cuBLAS and cuDNN as they are used: 300 MiB bare and lazily loaded since CUDA
11.7, over 1,000 before (pytorch/pytorch#107667)."""
NCCL_CONNECTION_BYTES = 10 * MIB
"""Buffers of one channel to one peer, all protocols (NVIDIA/nccl#1685)."""
NCCL_CHANNELS = {  # a channel is a ring of its own; fast links need many to be filled
    Transport.NVLINK: 24,
    Transport.RDMA: 16,
    Transport.PCIE: 4,
    Transport.HOST: 2,
    Transport.TCP: 2,
}
FRAGMENTATION_FRACTION = 0.05
"""Of tensor bytes, reserved and not usable. The rules of PyTorch's CUDA allocator (pools, rounding, best fit,
splitting) played over traced steps reserve 2 to 10% more than is alive for ViT-B/16 and GPT-2."""
CONVOLUTION_FRAGMENTATION_FRACTION = 0.13  # the same for ResNet-50: 7 to 13%, its maps have many sizes
UPPER_FRACTION = 0.15  # one-sided, of the expected peak, where nothing was measured (95%)
UPPER_FRACTION_MEASURED = 0.03  # the same on the line through two measured batch sizes


class Optimizer(StrEnum):
    """By how many values it keeps per parameter."""

    ADAMW = "AdamW"
    SGD_MOMENTUM = "SGD with momentum"
    SGD = "SGD"
    ADAFACTOR = "Adafactor"


OPTIMIZER_BYTES_PER_PARAMETER = {
    Optimizer.ADAMW: 8.0,  # two fp32 moments
    Optimizer.SGD_MOMENTUM: 4.0,
    Optimizer.SGD: 0.0,
    Optimizer.ADAFACTOR: 0.1,  # a row and a column per matrix
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBreakdown:
    """Bytes of the fullest rank at its peak."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    copies: float = 0.0  # buckets, gathered blocks, temporaries
    fragmentation: float = 0.0
    communicators: float = 0.0  # outside the allocator
    context: float = 0.0  # outside the allocator

    @property
    def allocator_bytes(self) -> float:
        """What torch.cuda.max_memory_reserved would say."""
        return self.total_bytes - self.outside_bytes

    @property
    def outside_bytes(self) -> float:
        """What NVML counts and the allocator does not know."""
        return self.communicators + self.context

    @property
    def total_bytes(self) -> float:
        """What NVML would say; the whole of it must fit on the card."""
        return sum(float(getattr(self, one.name)) for one in fields(self))

    def upper_bytes(self, upper_fraction: float = UPPER_FRACTION) -> float:
        """One-sided bound on the total."""
        return self.total_bytes * (1.0 + upper_fraction)


def state_bytes(
    parameter_count: int, optimizer: Optimizer = Optimizer.ADAMW, trainable_count: int | None = None
) -> StateBytes:
    """fp32 parameters and gradients, as PyTorch keeps them under every precision of ours."""
    trainable = parameter_count if trainable_count is None else trainable_count
    return StateBytes(
        parameters=float(FP32_BYTES * parameter_count),
        gradients=float(FP32_BYTES * trainable),
        optimizer=OPTIMIZER_BYTES_PER_PARAMETER[optimizer] * trainable,
    )


def data_parallel_memory(
    state: StateBytes,
    activation_bytes: float,
    *,
    parallelism: str,
    worker_count: int,
    node_count: int = 1,
    precision: str = REFERENCE,
    techniques: Collection[str] = (),
    block_count: int = 0,
    transport: Transport | None = None,
    fragmentation_fraction: float = FRAGMENTATION_FRACTION,
) -> MemoryBreakdown:
    """Peak of a rank.

    Args:
        state: of the whole model.
        activation_bytes: tensors alive at the peak beyond the state, for this micro batch (a trace's
            ``peak_bytes`` less its state).
        parallelism: of the configuration.
        worker_count: in all, on ``node_count`` nodes.
        node_count: of the configuration.
        precision: of the passes.
        techniques: of the configuration.
        block_count: of repeated blocks; 0 where none was found.
        transport: of the slowest link between the workers; None on CPU, where nothing lies outside.
        fragmentation_fraction: of tensor bytes, that the allocator reserves and cannot use.
    """
    group = Group(rank_count=worker_count, node_count=node_count)
    mode = PARALLELISMS[parallelism]
    held = mode.rank_bytes(state, group, block_count, PRECISIONS[precision])
    for one in techniques:
        held = TECHNIQUES[one].rank_bytes(held)
    activations = activation_bytes * mode.activation_fraction(group)
    tensors = held.parameters + held.gradients + held.optimizer + activations + held.copies
    is_cuda = transport is not None
    return MemoryBreakdown(
        parameters=held.parameters,
        gradients=held.gradients,
        optimizer=held.optimizer,
        activations=activations,
        copies=held.copies,
        fragmentation=fragmentation_fraction * tensors if is_cuda else 0.0,
        communicators=communicator_bytes(transport, 1) if is_cuda and worker_count > 1 else 0.0,
        context=float(CUDA_CONTEXT_BYTES) if is_cuda else 0.0,
    )


def communicator_bytes(transport: Transport | None, count: int) -> float:
    """NCCL's buffers: per communicator and channel, one connection to either neighbour of the ring."""
    channels = NCCL_CHANNELS.get(transport, 0) if transport is not None else 0
    return float(count * channels * 2 * NCCL_CONNECTION_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """peak = base + per_sample * micro batch size, through measured batch sizes of one setting.

    Where passes and update were measured apart the line is the passes', and the peak at least the update's.
    """

    base_bytes: float
    per_sample_bytes: float
    sizes: tuple[int, ...]  # measured micro batch sizes, ascending
    floor_bytes: float = 0.0
    gradient_bytes: float = 0.0  # in the base; a step's only micro batch begins without them

    def expected_bytes(self, micro_batch_size: int, accumulation: int = 2) -> float:
        """On the line, or the floor."""
        base = self.base_bytes - (self.gradient_bytes if accumulation == 1 else 0.0)
        return max(self.floor_bytes, base + self.per_sample_bytes * micro_batch_size)

    def upper_bytes(self, micro_batch_size: int, accumulation: int = 2) -> float:
        """One-sided bound: the margin grows with the distance beyond the largest measured size."""
        beyond = max(0.0, math.log2(micro_batch_size / self.sizes[-1]))
        margin = UPPER_FRACTION_MEASURED * (1.0 + beyond)
        return self.expected_bytes(micro_batch_size, accumulation) * (1.0 + margin)


def fit_memory_line(points: Iterable[tuple[int, float]]) -> MemoryLine | None:
    """The line through measured (micro batch size, peak bytes) of one setting; None below two sizes.

    Everything but the activations is independent of the batch, and the activations are proportional to it,
    so two sizes determine the line exactly. With more, the slope is that of the extremes and the line lies
    on or above every point: workspaces and rounding make small batches a little fuller than the line.
    """
    peaks: dict[int, float] = {}
    for size, peak in points:
        peaks[size] = max(peaks.get(size, 0), peak)
    sizes = tuple(sorted(peaks))
    if len(sizes) <= 1:
        return None
    slope = max(0.0, (peaks[sizes[-1]] - peaks[sizes[0]]) / (sizes[-1] - sizes[0]))
    base = max(peaks[size] - slope * size for size in sizes)
    return MemoryLine(base_bytes=base, per_sample_bytes=slope, sizes=sizes)
