"""Makes CPU tensors take the operations that CUDA tensors would take, while a step is traced.

A trace runs on fake CPU tensors, since fake CUDA tensors need a CUDA build. Three things differ between the
two devices, and each is put right through the dispatcher while `cuda_operations` is on:

* Attention: CUDA runs a fused kernel in every precision, with dropout and masks: flash attention in a low
  precision without a mask, memory-efficient attention otherwise. CPU falls back to matmul and softmax for
  dropout and for gradients of a mask.
* Dropout: CUDA runs one kernel and saves a mask of one byte; CPU runs three and saves a full-size mask.
* Autocast: CUDA runs norms, softmax, losses and some pointwise operations in fp32, CPU leaves them in the low
  precision, and the other way around for cross_entropy. The CUDA list is AT_FORALL_FP32 and
  AT_FORALL_FP32_SET_OPT_DTYPE of ATen/autocast_mode.h (2.13), of which what trains is kept here.

Not put right: cuDNN's workspaces and its fused LSTM, the padding of head widths that are no multiple of 8,
GPUs older than Ampere, where flash attention is the memory-efficient one (the same FLOPs and bytes).
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOW = (torch.bfloat16, torch.float16)
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

_TO_FP32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm
native_layer_norm rms_norm group_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits dist cdist logsumexp upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
"""
_WITH_DTYPE = "prod cumprod cumsum sum"  # given dtype=float32 where the caller gave none
_FLASH_WIDTH_MAX = 256  # of a head
_UNCHANGED = """
avg_pool3d max_pool3d adaptive_avg_pool3d reflection_pad1d reflection_pad2d replication_pad1d
replication_pad2d replication_pad3d
"""  # CPU autocast would make these fp32, CUDA does not


@contextmanager
def cuda_operations() -> Iterator[None]:
    """Dispatch CPU operations as CUDA would, in this process, until the block ends."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overriding what autocast registers for CPU is the intent
            _register(library)
        yield
    finally:
        library._destroy()


def _register(library: torch.library.Library) -> None:
    aten = torch.ops.aten
    library.impl("scaled_dot_product_attention", _attention, "AutogradCPU")
    library.impl("dropout", _dropout, "AutogradCPU")
    library.impl("softmax.int", _softmax(aten.softmax.int, aten._softmax, _LOW), "AutocastCPU")
    # torch's shape function for log_softmax takes fp16 only: bf16 is traced with a cast of its own before it
    log_softmax = _softmax(aten.log_softmax.int, aten._log_softmax, _LOW[1:])
    library.impl("log_softmax.int", log_softmax, "AutocastCPU")
    library.impl("cross_entropy_loss", aten.cross_entropy_loss.default.decompose, "AutocastCPU")
    for names, wrap in ((_TO_FP32, _in_fp32), (_WITH_DTYPE, _accumulated_in_fp32), (_UNCHANGED, _as_it_is)):
        for name in names.split():
            packet = getattr(aten, name, None)  # versions of torch differ in a few
            for overload in [] if packet is None else packet.overloads():
                operation = getattr(packet, overload)
                if _is_plain(operation):
                    library.impl(
                        operation._schema.name.partition("::")[2] + _suffix(overload),
                        wrap(operation),
                        "AutocastCPU",
                    )


def _suffix(overload: str) -> str:
    return "" if overload == "default" else f".{overload}"


def _is_plain(operation: Any) -> bool:
    """Neither writes into an argument nor takes names of dimensions."""
    schema = operation._schema
    return not schema.is_mutable and not any("Dimname" in str(one.type) for one in schema.arguments)


def _in_fp32(operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map_only(
            torch.Tensor, lambda one: one.float() if one.dtype in _LOW else one, (args, kwargs)
        )
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return operation(*args, **kwargs)

    return run


def _accumulated_in_fp32(operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if first.dtype in _LOW and kwargs.get("dtype") is None:
            kwargs["dtype"] = torch.float32
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return operation(first, *args, **kwargs)

    return run


def _as_it_is(operation: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return operation(*args, **kwargs)

    return run


def _softmax(
    composite: Callable[..., Any], fused: Callable[..., Any], fusing: tuple[torch.dtype, ...]
) -> Callable[..., Any]:
    """Softmax of a low-precision tensor into fp32 is one kernel on CUDA, without a cast before it."""

    def run(tensor: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
        wanted = torch.float32 if dtype is None and tensor.dtype in _LOW else dtype
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            if tensor.dtype in fusing and wanted is torch.float32:
                return fused(tensor, dim, True)  # half_to_float
            return composite(tensor, dim, wanted)

    return run


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001 - the operator's signature
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """The kernel that CUDA chooses (ATen/native/transformers/cuda/sdp_utils.cpp), whatever its data."""
    aten = torch.ops.aten
    if query.dim() != 4:  # noqa: PLR2004 - (batch, heads, tokens, width)
        return _first(
            aten._scaled_dot_product_attention_math(
                query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
            )
        )
    if attn_mask is None and query.dtype in _LOW and query.shape[-1] == value.shape[-1] <= _FLASH_WIDTH_MAX:
        return _first(
            aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )
        )
    if enable_gqa:  # the memory-efficient kernel wants every head
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    if attn_mask is not None:
        attn_mask = _as_bias(attn_mask, query).expand(*query.shape[:3], key.shape[2])
    has_gradient = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
    return _first(
        aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, has_gradient, dropout_p, is_causal, scale=scale
        )
    )


def _as_bias(mask: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    if mask.dtype is torch.bool:
        return torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    return mask.to(query.dtype)


def _first(outputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return outputs[0]


def _dropout(tensor: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: FBT001 - the operator's
    if not train or p == 0:
        return tensor
    return _first(torch.ops.aten.native_dropout(tensor, p, train))
