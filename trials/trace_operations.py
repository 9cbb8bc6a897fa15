"""What one ATen call is: its class, its shape, its FLOPs and the bytes it moves.

FLOPs are those of matmul, convolution and attention, two per multiply-add, as in every MFU figure; the other
classes are bound by bytes and count none. Attention counts the whole score matrix, causal or not (the
convention of torch.utils.flop_counter), and its backward five products where its forward has two (the scores
are computed again; Dao et al., FlashAttention, 2022).

Bytes are those of the tensors read and of the tensors written, each once, without caches: a floor. A tensor
that is written in place counts for both if the operation also reads it. Broadcast dimensions are stored
once. Lookups (embedding, index, gather) read the rows they take, not the whole table.

`Operation.shape`, by class:

| class | shape |
|---|---|
| matmul | (batch, m, n, k) |
| convolution | (batch, c_in, c_out, groups, *input size, *output size, *kernel, *stride), sizes of the forward pass |
| attention | (batch, heads, query tokens, key tokens, head width, key heads) |
| optimizer | (tensors, elements) of one call over a list of tensors, else the output's shape |
| the others | of the first output; of the first input for a reduction, a softmax or a norm |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from trials.profile import OperationClass

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_KERNEL = frozenset(
    "empty empty_like empty_strided new_empty new_empty_strided _local_scalar_dense _unsafe_view detach alias "
    "lift_fresh lift _reshape_alias set_ resize_ is_same_size _nested_tensor_size".split()
)
_CLASSES = {
    OperationClass.MATMUL: "mm addmm bmm baddbmm _scaled_mm mv addmv dot vdot addbmm",
    OperationClass.CONVOLUTION: "convolution _convolution convolution_overrideable convolution_backward",
    OperationClass.ATTENTION: "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
    OperationClass.NORMALISATION: "native_layer_norm native_batch_norm _native_batch_norm_legit "
    "_native_batch_norm_legit_functional cudnn_batch_norm batch_norm_with_update native_group_norm "
    "_fused_rms_norm _batch_norm_with_update miopen_batch_norm _batch_norm_no_update",
    OperationClass.SOFTMAX: "_softmax _log_softmax _safe_softmax",
    OperationClass.EMBEDDING: "embedding embedding_dense index index_select gather index_put _index_put_impl "
    "scatter scatter_add index_add index_copy nll_loss nll_loss_forward nll_loss2d nll_loss2d_forward "
    "_embedding_bag _unsafe_index",
    OperationClass.REDUCTION: "sum mean amax amin max min argmax argmin var var_mean std prod norm "
    "linalg_vector_norm cumsum cumprod logsumexp any all topk sort mse_loss smooth_l1_loss huber_loss l1_loss "
    "binary_cross_entropy max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d "
    "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d count_nonzero norm_except_dim",
    OperationClass.COPY: "clone _to_copy copy cat stack constant_pad_nd zeros ones full fill zero zeros_like "
    "ones_like full_like new_zeros new_ones new_full repeat roll flip tril triu arange masked_fill "
    "reflection_pad2d replication_pad2d reflection_pad1d split_with_sizes_copy scalar_tensor slice select "
    "unfold slice_scatter select_scatter diagonal as_strided",
    OperationClass.ELEMENTWISE: "native_dropout bernoulli uniform normal rand randn randint where mse_loss_backward "
    "upsample_nearest2d upsample_bilinear2d upsample_nearest3d upsample_trilinear3d one_hot exponential",
}
_CLASS_OF = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
_WRITES_ONLY = frozenset("copy_ fill_ zero_ uniform_ normal_ bernoulli_ random_ exponential_".split())
_SHAPED_BY_INPUT = {OperationClass.NORMALISATION, OperationClass.SOFTMAX, OperationClass.REDUCTION}

# One multi-tensor kernel takes at most so many tensors (by lists) and blocks, a block 65,536 elements
# (ATen/native/cuda/MultiTensorApply.cuh and ForeachUtils; the same since PyTorch 1.12).
_LIST_TENSORS_MAX = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
_LIST_BLOCKS_MAX = 320
_BLOCK_ELEMENTS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel of a call; ``count`` of them when a call over a list of tensors needs several."""

    name: str
    kind: OperationClass
    dtype: str
    shape: tuple[int, ...]
    flops: float
    bytes: float
    count: int = 1


def kernels_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> tuple[Kernel, ...]:  # noqa: ANN401
    """The kernels that this ATen call launches: none for a view or an allocation, two or three for the
    backward of a convolution, one otherwise."""
    name = func._schema.name.partition("::")[2]
    if (
        name in _NO_KERNEL
        or getattr(func, "namespace", "aten") not in {"aten", "prims"}
        and not _tensors(result)
    ):
        return ()
    outputs, inputs = _tensors(result), _tensors((args, kwargs))
    if not any(one.numel() for one in outputs or inputs):
        return ()
    if name.startswith(("_foreach_", "_fused_")) and _is_list(args):
        return _list_kernels(func, name, args, kwargs, outputs)
    if _is_view(func, inputs, outputs):
        return ()
    base = name.rstrip("_") if func._schema.is_mutable else name
    kind = class_of(base, is_pointwise=torch.Tag.pointwise in func.tags)
    if base == "convolution_backward":
        return _convolution_backward(args, outputs)
    shape, flops = _shape_and_flops(base, kind, args, inputs, outputs)
    return (
        Kernel(
            name=f"aten.{name}",
            kind=kind,
            dtype=_dtype(kind, inputs, outputs),
            shape=shape,
            flops=flops,
            bytes=_bytes(name, base, kind, func, args, inputs, outputs),
        ),
    )


def class_of(base: str, *, is_pointwise: bool) -> OperationClass:
    """The class of an ATen operation by its name without the trailing underscore of in-place variants."""
    stem = base.removesuffix("_data").removesuffix("_backward")
    found = _CLASS_OF.get(base) or _CLASS_OF.get(stem)
    if found is not None:
        return found
    return OperationClass.ELEMENTWISE if is_pointwise or base.endswith("_backward") else OperationClass.OTHER


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes that a kernel touches to read or write this tensor: broadcast dimensions are stored once."""
    if tensor.layout is not torch.strided:
        return tensor.numel() * tensor.element_size()
    stored = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or size == 0)
    return prod(stored) * tensor.element_size()


def convolution_flops(*, weight: Sequence[int], batch: int, positions: int) -> int:
    """FLOPs of a convolution, of its input gradient, or of its weight gradient: all three are equal.

    ``weight`` is (c_out, c_in / groups, *kernel), or (c_in, c_out / groups, *kernel) when transposed;
    ``positions`` is the number of output positions, or of input positions when transposed.
    """
    return 2 * batch * positions * prod(weight)


def _tensors(tree: Any) -> list[torch.Tensor]:  # noqa: ANN401
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _is_list(args: tuple[Any, ...]) -> bool:
    return bool(args) and isinstance(args[0], (list, tuple)) and isinstance(args[0][0], torch.Tensor)


def _is_view(func: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> bool:  # noqa: ANN401
    if func._schema.is_mutable or not inputs or not outputs:
        return False
    storage = outputs[0].untyped_storage()._cdata
    return any(one.untyped_storage()._cdata == storage for one in inputs)


def _dtype(kind: OperationClass, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> str:
    multiplies = kind in {OperationClass.MATMUL, OperationClass.CONVOLUTION, OperationClass.ATTENTION}
    tensor = inputs[1] if multiplies and len(inputs) > 1 else (outputs or inputs)[0]
    return str(tensor.dtype).removeprefix("torch.")


def _shape_and_flops(
    base: str,
    kind: OperationClass,
    args: tuple[Any, ...],
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> tuple[tuple[int, ...], float]:
    if kind is OperationClass.MATMUL:
        shape = _matmul_shape(base, args)
        return shape, 2.0 * prod(shape)
    if kind is OperationClass.CONVOLUTION:
        shape = _convolution_shape(
            args[0], args[1], args[3], args[8], outputs[0].shape, is_transposed=args[6]
        )
        positions = prod((args[0] if args[6] else outputs[0]).shape[2:])
        flops = convolution_flops(weight=args[1].shape, batch=args[0].shape[0], positions=positions)
        return shape, float(flops)
    if kind is OperationClass.ATTENTION:
        is_backward = base.endswith("_backward")
        query, key = (args[1], args[2]) if is_backward else (args[0], args[1])
        batch, heads, tokens, width = query.shape
        shape = (batch, heads, tokens, key.shape[2], width, key.shape[1])
        return shape, (5 if is_backward else 2) * 2.0 * batch * heads * tokens * key.shape[2] * width
    first = inputs if kind in _SHAPED_BY_INPUT and inputs else outputs or inputs
    return tuple(first[0].shape), 0.0


def _matmul_shape(base: str, args: tuple[Any, ...]) -> tuple[int, int, int, int]:
    left, right = args[1:3] if base in {"addmm", "baddbmm", "addmv", "addbmm"} else args[:2]
    if left.dim() == 1:
        return (1, 1, 1, left.shape[0])
    batch = left.shape[0] if left.dim() == 3 else 1  # noqa: PLR2004 - (batch, m, k)
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
    is_transposed, groups, mask = args[7], args[9], args[10]
    shape = _convolution_shape(signal, weight, args[4], groups, gradient.shape, is_transposed=is_transposed)
    positions = prod((signal if is_transposed else gradient).shape[2:])
    flops = convolution_flops(weight=weight.shape, batch=signal.shape[0], positions=positions)
    sizes = {"input": weight, "weight": signal}
    dtype = str(gradient.dtype).removeprefix("torch.")
    made = iter(outputs)
    kernels = []
    for part, is_wanted in zip(("input", "weight", "bias"), mask, strict=True):
        if not is_wanted:
            continue
        output = next(made)
        is_bias = part == "bias"
        read = () if is_bias else (sizes[part],)
        kernels.append(
            Kernel(
                name=f"aten.convolution_backward.{part}",
                kind=OperationClass.REDUCTION if is_bias else OperationClass.CONVOLUTION,
                dtype=dtype,
                shape=tuple(gradient.shape) if is_bias else shape,
                flops=0.0 if is_bias else float(flops),
                bytes=float(sum(tensor_bytes(one) for one in (gradient, output, *read))),
            )
        )
    return tuple(kernels)


def _bytes(
    name: str,
    base: str,
    kind: OperationClass,
    func: Any,  # noqa: ANN401
    args: tuple[Any, ...],
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
) -> float:
    if kind is OperationClass.EMBEDDING:
        return float(_lookup_bytes(base, args, inputs, outputs))
    reads = {id(one): tensor_bytes(one) for one in inputs}
    if name in _WRITES_ONLY:
        reads.pop(id(args[0]), None)
    if base in {"masked_fill"} and func._schema.is_mutable:
        reads.pop(id(args[0]), None)  # writes where the mask is set; counted below in full
    return float(sum(reads.values()) + sum(tensor_bytes(one) for one in outputs))


def _lookup_bytes(
    base: str, args: tuple[Any, ...], inputs: list[torch.Tensor], outputs: list[torch.Tensor]
) -> int:
    """Rows that are taken are read and written; a gradient of the table is zeroed, then added to."""
    written = sum(tensor_bytes(one) for one in outputs)
    if base.startswith("nll_loss") and not base.endswith("_backward"):
        targets = args[1]
        return tensor_bytes(targets) + targets.numel() * inputs[0].element_size() + written
    if base.startswith("nll_loss"):
        return written + tensor_bytes(args[2])
    if base.startswith("embedding_dense"):
        return written + 3 * tensor_bytes(args[0]) + tensor_bytes(args[1])
    if base.startswith(("index_put", "_index_put", "scatter", "index_add", "index_copy")):
        others = [one for one in inputs[1:] if one is not inputs[0]]
        moved = 3 * sum(tensor_bytes(one) for one in others)
        return moved if outputs and outputs[0] is inputs[0] else moved + 2 * written
    indices = sum(tensor_bytes(one) for one in inputs if not one.is_floating_point())
    return 2 * written + indices


def _list_kernels(
    func: Any,  # noqa: ANN401
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    outputs: list[torch.Tensor],
) -> tuple[Kernel, ...]:
    """A call over lists of tensors: as many kernels as multi-tensor apply launches for their sizes."""
    first = [one for one in args[0] if one.numel() > 1]
    if not first:
        return ()  # step counters, which optimizers keep on the host
    lists = [
        one for one in (*args, *kwargs.values()) if isinstance(one, (list, tuple)) and _tensors(list(one))
    ]
    touched = {id(one): tensor_bytes(one) for group in lists for one in group if one.numel() > 1}
    writes = _written_lists(func, args, lists, outputs)
    if name.startswith("_foreach_copy_"):
        touched = {key: size for key, size in touched.items() if key not in {id(one) for one in first}}
    depth = len(lists) + (0 if func._schema.is_mutable else 1)
    blocks = sum(ceil(one.numel() / _BLOCK_ELEMENTS) for one in first)
    by_tensors = ceil(len(first) / _LIST_TENSORS_MAX.get(depth, min(_LIST_TENSORS_MAX.values())))
    count = max(ceil(blocks / _LIST_BLOCKS_MAX), by_tensors)
    total = sum(touched.values()) + sum(tensor_bytes(one) for one in writes)
    return (
        Kernel(
            name=f"aten.{name}",
            kind=OperationClass.OPTIMIZER,
            dtype=str(first[0].dtype).removeprefix("torch."),
            shape=(len(first), sum(one.numel() for one in first)),
            flops=0.0,
            bytes=total / count,
            count=count,
        ),
    )


def _written_lists(
    func: Any,  # noqa: ANN401
    args: tuple[Any, ...],
    lists: list[Any],
    outputs: list[torch.Tensor],
) -> list[torch.Tensor]:
    if not func._schema.is_mutable:
        return outputs
    named = zip(func._schema.arguments, args, strict=False)
    return [
        one
        for argument, value in named
        if argument.alias_info is not None and argument.alias_info.is_write and value in lists
        for one in value
        if one.numel() > 1
    ]
