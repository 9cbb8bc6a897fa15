"""What a precision does: torch's settings for the forward and backward pass. Parameters stay fp32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch

from trials.model_file.contract import Step

AMPERE = (8, 0)


class Precision:
    """One precision; a subclass states what differs from fp32."""

    name: ClassVar[str]
    dtype: ClassVar[torch.dtype | None] = None  # that autocast computes in, and FSDP2 gathers in
    is_tf32: ClassVar[bool] = False  # whether fp32 products may run on TF32 units
    is_loss_scaled: ClassVar[bool] = False
    is_traced: ClassVar[bool] = False  # its operations are traced, and stand for those like them
    capability_min: ClassVar[tuple[int, int] | None] = None  # of a CUDA device
    cpu_refusal: ClassVar[str | None] = None

    @property
    def order(self) -> tuple[int, ...]:
        """By the size of what is computed with, the largest first."""
        return (-(self.dtype or torch.float32).itemsize,)

    def refusal(self, device: torch.device) -> str | None:
        """Why ``device`` cannot compute in it; None where it can."""
        if device.type != "cuda":
            return self.cpu_refusal
        has = torch.cuda.get_device_capability(device)
        if self.capability_min is not None and has < self.capability_min:
            wanted = "{}.{}".format(*self.capability_min)
            return f"{self.name} needs a GPU of compute capability {wanted}, this one has {has[0]}.{has[1]}"
        return None

    def prepare(self, step: Step) -> None:
        """Change the modules, before anything wraps them."""

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """The context of a forward pass."""
        return nullcontext() if self.dtype is None else torch.autocast(device.type, dtype=self.dtype)

    def grad_scaler(self, device: torch.device) -> torch.amp.GradScaler:
        """Scales the loss where gradients need it; does nothing otherwise."""
        return torch.amp.GradScaler(device.type, enabled=self.is_loss_scaled)

    def set_arithmetic(self) -> None:
        """Allow or forbid TF32 in fp32 products and convolutions; torch allows it in cuDNN by default."""
        forget_inherited_arithmetic()
        torch.set_float32_matmul_precision("high" if self.is_tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = self.is_tf32


def forget_inherited_arithmetic() -> None:
    """Undo torch's second way (since 2.9) to allow TF32, which the first one neither shows nor overrides."""
    backends: Any = torch.backends
    if hasattr(backends, "fp32_precision"):
        for one in (backends, backends.cudnn, backends.mkldnn):
            one.fp32_precision = "none"
