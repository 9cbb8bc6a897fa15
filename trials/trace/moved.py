"""The bytes that a kernel moves: tensors read and tensors written, each once, without caches: a floor.

A tensor that is written in place counts for both if the operation also reads it. Broadcast dimensions are
stored once. Lookups (embedding, index, gather) read the rows they take, not the whole table.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRITES_ONLY = {"copy_", "fill_", "zero_", "uniform_", "normal_", "bernoulli_", "random_", "exponential_"}
_PUTS = ("index_put", "_index_put", "scatter", "index_add", "index_copy")


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """The tensors of arguments, of a result, or of a batch of any shape."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a kernel touches to read or write this tensor: broadcast dimensions are stored once."""
    if tensor.layout is not torch.strided:
        return tensor.numel() * tensor.element_size()
    stored = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or size == 0)
    return prod(stored) * tensor.element_size()


def call_bytes(name: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Bytes of an ATen call by its name; ``inputs`` in the order of its arguments, the written one first."""
    reads = {id(one): tensor_bytes(one) for one in inputs}
    if name in _WRITES_ONLY:
        reads.pop(id(inputs[0]), None)
    return sum(reads.values()) + sum(tensor_bytes(one) for one in outputs)


def lookup_bytes(base: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Bytes of a lookup: rows are read and written; the gradient of a table is zeroed, then added to."""
    written = sum(tensor_bytes(one) for one in outputs)
    if base.startswith("nll_loss"):
        targets = next(one for one in inputs if not one.is_floating_point())
        taken = targets.numel() * inputs[0].element_size()
        return tensor_bytes(targets) + taken + written
    if base == "embedding_dense_backward":
        return written + 3 * tensor_bytes(inputs[0]) + tensor_bytes(inputs[1])
    if base.startswith(_PUTS):
        moved = 3 * sum(tensor_bytes(one) for one in inputs[1:])  # the new value, and the old one there
        is_in_place = bool(outputs) and outputs[0] is inputs[0]
        return moved if is_in_place else moved + 2 * written
    indices = sum(tensor_bytes(one) for one in inputs if not one.is_floating_point())
    return 2 * written + indices
