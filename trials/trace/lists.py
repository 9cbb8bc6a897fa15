"""Calls over lists of tensors (torch._foreach_*, fused optimizers): their bytes, and their kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import torch

from trials.trace.moved import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

# A multi-tensor kernel takes at most so many tensors (by lists) and blocks, a block 65,536 elements
# (ATen/native/cuda/MultiTensorApply.cuh up to CUDA 12; under CUDA 13 one takes seven times as much).
_LIST_TENSORS_MAX = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
_LIST_BLOCKS_MAX = 320
_BLOCK_ELEMENTS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCall:
    """One call over lists; its kernels share the bytes."""

    dtype: torch.dtype
    tensor_count: int
    element_count: int
    kernel_count: int
    bytes: int


def is_list_call(args: tuple[Any, ...]) -> bool:
    """Whether the first argument is a list of tensors."""
    return bool(args) and _is_list(args[0])


def list_call(func: Any, args: tuple[Any, ...], outputs: Sequence[torch.Tensor]) -> ListCall | None:
    """What a call (an OpOverload) over lists does; None when it only counts steps, on the host."""
    first = _large(args[0])
    if not first:
        return None
    read = [_large(one) for one in args if _is_list(one)]
    written = _written(func, args) if func._schema.is_mutable else [_large(outputs)]
    moved = read[1:] if func._schema.name == "aten::_foreach_copy_" else read
    once = {id(one): one for group in moved for one in group}
    return ListCall(
        dtype=first[0].dtype,
        tensor_count=len(first),
        element_count=sum(one.numel() for one in first),
        kernel_count=kernel_count(
            [one.numel() for one in first], list_count=len(read) + (not func._schema.is_mutable)
        ),
        bytes=sum(tensor_bytes(one) for group in (once.values(), *written) for one in group),
    )


def kernel_count(element_counts: Sequence[int], *, list_count: int) -> int:
    """Kernels that multi-tensor apply launches over ``list_count`` lists of tensors of these sizes."""
    blocks = sum(ceil(count / _BLOCK_ELEMENTS) for count in element_counts)
    tensors_max = _LIST_TENSORS_MAX.get(list_count, min(_LIST_TENSORS_MAX.values()))
    return max(ceil(blocks / _LIST_BLOCKS_MAX), ceil(len(element_counts) / tensors_max))


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], torch.Tensor)


def _large(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Without step counters and the like, which live on the host."""
    return [one for one in tensors if one.numel() > 1]


def _written(func: Any, args: tuple[Any, ...]) -> list[list[torch.Tensor]]:
    """The lists that the call writes into. Fused optimizers write gradients only when they also unscale."""
    return [
        _large(value)
        for argument, value in zip(func._schema.arguments, args, strict=False)
        if _is_list(value)
        and argument.alias_info is not None
        and argument.alias_info.is_write
        and argument.name != "grads"
    ]
