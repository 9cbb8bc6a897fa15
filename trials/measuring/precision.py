"""Arithmetic of a trial: which precisions a device takes, and the torch settings that give them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from trials.trial import Precision

_AUTOCAST: dict[str, torch.dtype] = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}
_AMPERE = (8, 0)


def precision_refusal(precision: str, device: torch.device) -> str | None:
    """Why ``device`` cannot compute in ``precision``; None where it can."""
    if device.type != "cuda":
        if precision == Precision.TF32:
            return "TF32 exists on NVIDIA GPUs only"
        return None
    capability = torch.cuda.get_device_capability(device)
    if precision == Precision.TF32 and capability < _AMPERE:
        return f"TF32 needs a GPU of compute capability 8.0, this one has {capability[0]}.{capability[1]}"
    if precision == Precision.BF16 and capability < _AMPERE:
        return f"bf16 needs a GPU of compute capability 8.0, this one has {capability[0]}.{capability[1]}"
    return None


def set_fp32_arithmetic(precision: str) -> None:
    """Allow or forbid TF32 in fp32 matrix products and convolutions; torch allows it in cuDNN by default."""
    forget_inherited_arithmetic()
    is_tf32 = precision == Precision.TF32
    torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = is_tf32


def forget_inherited_arithmetic() -> None:
    """Undo torch's second way (since 2.9) to allow TF32, which the first one neither shows nor overrides."""
    backends: Any = torch.backends
    if hasattr(backends, "fp32_precision"):
        for one in (backends, backends.cudnn, backends.mkldnn):
            one.fp32_precision = "none"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The context of a forward pass: autocast for bf16 and fp16, nothing otherwise."""
    dtype = _AUTOCAST.get(precision)
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def grad_scaler(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """Loss scaling for fp16, which has too few exponents for small gradients; does nothing otherwise."""
    return torch.amp.GradScaler(device.type, enabled=precision == Precision.FP16)
