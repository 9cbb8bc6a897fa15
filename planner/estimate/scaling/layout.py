"""A transformer's shape, and how it is laid out over workers, in Megatron's order (see `pipeline`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.modes.terms import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerShape:
    """A decoder or encoder of equal layers."""

    layer_count: int
    hidden_size: int
    head_count: int
    sequence_length: int
    vocabulary_size: int
    has_fused_attention: bool = False  # the s x s matrix is never written (FlashAttention)
    has_attention_dropout: bool = True  # on the s x s matrix: its mask and output are kept too

    @property
    def parameters_per_layer(self) -> int:
        """Of one layer: attention 4 h^2, feed-forward 8 h^2, biases and norms 13 h."""
        return 12 * self.hidden_size**2 + 13 * self.hidden_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of parallelism and the batch; ``tensor * pipeline * data`` workers."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    micro_batch_size: int  # samples per forward pass of a stage
    micro_batch_count: int  # per pipeline and optimizer step
    workers_per_node: int
    is_checkpointed: bool = False

    @property
    def worker_count(self) -> int:
        """Workers in all."""
        return self.tensor * self.pipeline * self.data

    @property
    def bubble_fraction(self) -> float:
        """Share of the pipeline's time in which a stage waits."""
        return (self.pipeline - 1) / (self.micro_batch_count + self.pipeline - 1)

    @property
    def tensor_group(self) -> Group:
        """Ranks that share each matrix."""
        return Group(rank_count=self.tensor, node_count=math.ceil(self.tensor / self.workers_per_node))

    @property
    def data_group(self) -> Group:
        """Ranks that hold the same parameters."""
        spanned = math.ceil(self.tensor * self.data / self.workers_per_node)
        return Group(rank_count=self.data, node_count=min(self.data, spanned))

    @property
    def neighbours(self) -> Group:
        """Two adjacent stages."""
        is_across = self.pipeline > 1 and self.tensor * self.data >= self.workers_per_node
        return Group(rank_count=min(self.pipeline, 2), node_count=2 if is_across else 1)
