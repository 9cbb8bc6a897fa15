"""What one ATen call is: its class, its shape, its FLOPs and the bytes it moves.

FLOPs are those of matmul, convolution and attention, two per multiply-add, as in every MFU figure; the other
classes are bound by bytes and count none. Attention counts the whole score matrix, causal or not (the
convention of torch.utils.flop_counter), and its backward five products where its forward has two: the scores
are computed again (Dao et al., FlashAttention, 2022).

`Operation.shape`, by class:

| class | shape |
|---|---|
| matmul | (batch, m, n, k) |
| convolution | (batch, c_in, c_out, groups, *input size, *output size, *kernel, *stride), forward's sizes |
| attention | (batch, heads, query tokens, key tokens, head width, key heads) |
| a call over a list of tensors | (tensors, elements) |
| normalisation, softmax, reduction | of the first input |
| the others | of the first output |

Operations of the optimizer are all of class optimizer; their shapes follow what they compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from trials.profile import OperationClass
from trials.trace.lists import is_list_call, list_call
from trials.trace.moved import call_bytes, lookup_bytes, tensor_bytes, tensors_in

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_KERNEL_NAMES = """
empty empty_like empty_strided new_empty new_empty_strided _local_scalar_dense _unsafe_view detach alias
lift_fresh lift _reshape_alias set_ resize_ is_same_size device
"""
_NO_KERNEL = frozenset(_NO_KERNEL_NAMES.split())
_CLASSES = {
    OperationClass.MATMUL: "mm addmm bmm baddbmm mv addmv dot",
    OperationClass.CONVOLUTION: "convolution",
    OperationClass.ATTENTION: """
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention""",
    OperationClass.NORMALISATION: """
        native_layer_norm native_batch_norm _native_batch_norm_legit cudnn_batch_norm batch_norm_with_update
        _batch_norm_with_update native_group_norm _fused_rms_norm""",
    OperationClass.SOFTMAX: "_softmax _log_softmax _safe_softmax",
    OperationClass.EMBEDDING: """
        embedding embedding_dense index index_select gather index_put _index_put_impl scatter scatter_add
        index_add index_copy nll_loss nll_loss_forward nll_loss2d nll_loss2d_forward _unsafe_index""",
    OperationClass.REDUCTION: """
        sum mean amax amin max min argmax argmin var var_mean std prod norm linalg_vector_norm cumsum cumprod
        logsumexp any all topk sort mse_loss smooth_l1_loss huber_loss l1_loss binary_cross_entropy
        max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d
        _adaptive_avg_pool3d adaptive_max_pool2d count_nonzero""",
    OperationClass.COPY: """
        clone _to_copy copy cat stack constant_pad_nd zeros ones full fill zero zeros_like ones_like full_like
        new_zeros new_ones new_full repeat roll flip tril triu arange scalar_tensor reflection_pad1d
        reflection_pad2d replication_pad2d slice select unfold slice_scatter select_scatter diagonal
        as_strided""",
    OperationClass.ELEMENTWISE: """
        native_dropout bernoulli uniform normal exponential rand randn randint where mse_loss_backward
        smooth_l1_loss_backward huber_loss_backward upsample_nearest2d upsample_bilinear2d upsample_nearest3d
        upsample_trilinear3d one_hot masked_fill""",
}
_CLASS_OF = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
_SHAPED_BY_INPUT = {OperationClass.NORMALISATION, OperationClass.SOFTMAX, OperationClass.REDUCTION}
_WITH_BIAS = frozenset(("addmm", "baddbmm", "addmv"))
_FORWARD_PRODUCTS, _BACKWARD_PRODUCTS = (1, 1), (3, 2)  # of attention, over the width of keys and of values


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Kernels of one call; ``count`` of them when a call over a list of tensors needs several."""

    name: str
    kind: OperationClass
    dtype: str
    shape: tuple[int, ...]
    flops: float  # of each
    bytes: float  # of each
    count: int = 1


def kernels_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> tuple[Kernel, ...]:
    """The kernels of one ATen call (an OpOverload): none for a view or an allocation, up to three for the
    backward of a convolution, several for a long list, else one.
    """
    name = func._schema.name.partition("::")[2]
    if name in _NO_KERNEL:
        return ()
    outputs, inputs = tensors_in(result), tensors_in((args, kwargs))
    if not any(one.numel() for one in outputs or inputs):
        return ()
    if name.startswith(("_foreach_", "_fused_", "_amp_foreach_")) and is_list_call(args):
        return _list_kernels(func, args, outputs)
    is_mutable = func._schema.is_mutable
    if not is_mutable and _is_view(inputs, outputs):
        return ()
    base = name.rstrip("_") if is_mutable else name
    if base == "convolution_backward":
        return _convolution_backward(args, outputs)
    kind = class_of(base, is_pointwise=torch.Tag.pointwise in func.tags)
    shape, flops = _shape_and_flops(base, kind, args, inputs, outputs)
    is_lookup = kind is OperationClass.EMBEDDING
    moved = lookup_bytes(base, inputs, outputs) if is_lookup else call_bytes(name, inputs, outputs)
    return (
        Kernel(
            name=f"aten.{name}",
            kind=kind,
            dtype=_dtype(kind, inputs, outputs),
            shape=shape,
            flops=flops,
            bytes=float(moved),
        ),
    )


def class_of(base: str, *, is_pointwise: bool) -> OperationClass:
    """The class of an ATen operation by its name, without the trailing underscore of in-place variants."""
    found = _CLASS_OF.get(base) or _CLASS_OF.get(base.removesuffix("_data").removesuffix("_backward"))
    if found is not None:
        return found
    return OperationClass.ELEMENTWISE if is_pointwise or base.endswith("_backward") else OperationClass.OTHER


def convolution_flops(*, weight: Sequence[int], batch: int, positions: int) -> int:
    """FLOPs of a convolution, of its input gradient, or of its weight gradient: all three are equal.

    ``weight`` is (c_out, c_in / groups, *kernel), or (c_in, c_out / groups, *kernel) when transposed;
    ``positions`` is the number of output positions, or of input positions when transposed.
    """
    return 2 * batch * positions * prod(weight)


def _is_view(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> bool:
    if not inputs or not outputs:
        return False
    storage = outputs[0].untyped_storage()._cdata
    return any(one.untyped_storage()._cdata == storage for one in inputs)


def _dtype(kind: OperationClass, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> str:
    multiplies = kind in {OperationClass.MATMUL, OperationClass.CONVOLUTION, OperationClass.ATTENTION}
    return _name_of((inputs[1] if multiplies else (outputs or inputs)[0]).dtype)


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shape_and_flops(
    base: str,
    kind: OperationClass,
    args: tuple[Any, ...],
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> tuple[tuple[int, ...], float]:
    if kind is OperationClass.MATMUL:
        product = _matmul_shape(base, args)
        return product, 2.0 * prod(product)
    if kind is OperationClass.CONVOLUTION:
        shape = _convolution_shape(
            args[0], args[1], args[3], args[8], outputs[0].shape, is_transposed=args[6]
        )
        positions = prod((args[0] if args[6] else outputs[0]).shape[2:])
        flops = convolution_flops(weight=args[1].shape, batch=args[0].shape[0], positions=positions)
        return shape, float(flops)
    if kind is OperationClass.ATTENTION:
        is_backward = base.endswith("_backward")
        query, key, value = args[1:4] if is_backward else args[:3]
        return _attention_shape_and_flops(query, key, value, is_backward=is_backward)
    first = inputs if kind in _SHAPED_BY_INPUT and inputs else outputs or inputs
    return tuple(first[0].shape), 0.0


def _attention_shape_and_flops(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_backward: bool
) -> tuple[tuple[int, ...], float]:
    batch, heads, tokens, width = query.shape
    scores, mixed = _BACKWARD_PRODUCTS if is_backward else _FORWARD_PRODUCTS
    flops = 2.0 * batch * heads * tokens * key.shape[2] * (scores * width + mixed * value.shape[3])
    return (batch, heads, tokens, key.shape[2], width, key.shape[1]), flops


def _matmul_shape(base: str, args: tuple[Any, ...]) -> tuple[int, int, int, int]:
    left, right = args[1:3] if base in _WITH_BIAS else args[:2]
    if left.dim() == 1:
        return (1, 1, 1, left.shape[0])
    batch = prod(left.shape[:-2])
    columns = 1 if right.dim() == 1 else right.shape[-1]
    return (batch, left.shape[-2], columns, left.shape[-1])


def _convolution_shape(
    signal: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    groups: int,
    output: Sequence[int],
    *,
    is_transposed: bool,
) -> tuple[int, ...]:
    c_out = weight.shape[1] * groups if is_transposed else weight.shape[0]
    rank = len(output) - 2
    strides = tuple(stride) if len(stride) == rank else tuple(stride) * rank
    size = (signal.shape[0], signal.shape[1], c_out, groups)
    return (*size, *signal.shape[2:], *output[2:], *weight.shape[2:], *strides)


def _convolution_backward(args: tuple[Any, ...], outputs: list[torch.Tensor]) -> tuple[Kernel, ...]:
    """Gradients of input, weight and bias are a kernel each (cuDNN's dgrad and wgrad, and a sum)."""
    gradient, signal, weight = args[:3]
    is_transposed, groups, wanted = args[7], args[9], args[10]
    shape = _convolution_shape(signal, weight, args[4], groups, gradient.shape, is_transposed=is_transposed)
    positions = prod((signal if is_transposed else gradient).shape[2:])
    flops = convolution_flops(weight=weight.shape, batch=signal.shape[0], positions=positions)
    reads = {"input": [gradient, weight], "weight": [gradient, signal], "bias": [gradient]}
    parts = [part for part, is_wanted in zip(reads, wanted, strict=True) if is_wanted]
    return tuple(
        Kernel(
            name=f"aten.convolution_backward.{part}",
            kind=OperationClass.REDUCTION if part == "bias" else OperationClass.CONVOLUTION,
            dtype=_name_of(gradient.dtype),
            shape=tuple(gradient.shape) if part == "bias" else shape,
            flops=0.0 if part == "bias" else float(flops),
            bytes=float(sum(tensor_bytes(one) for one in (*reads[part], output))),
        )
        for part, output in zip(parts, outputs, strict=True)
    )


def _list_kernels(func: Any, args: tuple[Any, ...], outputs: list[torch.Tensor]) -> tuple[Kernel, ...]:
    call = list_call(func, args, outputs)
    if call is None:
        return ()
    return (
        Kernel(
            name=f"aten.{func._schema.name.partition('::')[2]}",
            kind=OperationClass.OPTIMIZER,
            dtype=_name_of(call.dtype),
            shape=(call.tensor_count, call.element_count),
            flops=0.0,
            bytes=call.bytes / call.kernel_count,
            count=call.kernel_count,
        ),
    )
