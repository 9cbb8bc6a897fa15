"""What is known of a workload before any trial: what `planner check` found, and the trace of one step.

Types only; imports no torch, so that the planner can think with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Adapter(StrEnum):
    """What kind of model file it is: plain functions, Lightning, or Hugging Face."""

    PLAIN = "plain functions"
    HUGGING_FACE = "Hugging Face PreTrainedModel"
    LIGHTNING = "LightningModule"


class TraceMode(StrEnum):
    """Which passes of a step were traced."""

    TRAINING = "training"  # forward, backward, optimizer
    GRADIENTS = "gradients"  # forward and backward, gradients added to those of an earlier micro batch
    INFERENCE = "inference"  # forward without gradients


class OperationClass(StrEnum):
    """Operations that share a bound and an efficiency."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    EMBEDDING = "embedding"
    COPY = "copy"
    OPTIMIZER = "optimizer"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Equal kernels of one step: ``count`` calls of ``flops`` and ``bytes`` each."""

    name: str  # aten name
    kind: OperationClass
    dtype: str  # "float32", "bfloat16"
    shape: tuple[int, ...]  # for matmul (batch, m, n, k); by class, see trials/trace/operations.py
    count: int
    flops: float
    bytes: float  # read and written, each tensor once


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One training step without a GPU, on one worker, accumulation 1."""

    micro_batch_size: int
    precision: str
    techniques: tuple[str, ...] = ()  # of those that change the operations
    operations: tuple[Operation, ...]
    peak_bytes: int  # tensors alive at the peak
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    buffer_bytes: int = 0
    batch_bytes: int = 0
    peak_accumulating_bytes: int = 0  # the same when gradients are kept between micro batches (and in DDP)
    passes_bytes: int = 0  # of it in forward and backward, gradients kept; 0 where only the whole is known
    update_bytes: int = 0  # of it in the optimizer's update
    mode: TraceMode = TraceMode.TRAINING
    is_fake: bool = True  # False: recorded on a real CPU step, of a model that fake tensors cannot run

    @property
    def flops(self) -> float:
        """Floating-point operations of all traced kernels of one step."""
        return sum(one.flops * one.count for one in self.operations)

    @property
    def bytes(self) -> float:
        """Bytes that all traced kernels of one step read and write."""
        return sum(one.bytes * one.count for one in self.operations)

    @property
    def kernel_count(self) -> int:
        """Kernels of the step, fused ones counted once."""
        return sum(one.count for one in self.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetHint:
    """What the user's file says about the run to be planned; None where it says nothing."""

    samples: int | None = None
    epochs: float | None = None
    tokens: int | None = None
    global_batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadProfile:
    """What `planner check` found by tracing a step, and by a real one on CPU where that is cheap."""

    adapter: Adapter
    parameter_count: int
    trainable_parameter_count: int
    sample_shape: str  # "input_ids int64[1024]"
    loss: float | None  # of one real step of two samples in fp32; None where none was run
    dataset_size: int | None  # samples in one epoch; None for synthetic batches
    tokens_per_sample: int | None
    hint: TargetHint
    block_count: int  # repeated blocks that checkpointing and FSDP2 wrap; 0 if none was found
    clip_norm: float | None  # gradient clipping that the user's file sets
    traces: tuple[Trace, ...]  # several micro batch sizes, precisions, with and without checkpointing
    trace_note: str  # why there is no trace, "" otherwise
    notes: tuple[str, ...] = ()  # knobs that this model cannot take, and why
