"""What a precision is to the planner: the arithmetic of the forward and backward pass.

The optimizer holds fp32 parameters under every one of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from catalogs.gpus import DeviceKind, Gpu

REFERENCE = "fp32"  # that the losses of the others are compared with
FULL_BYTES = 4


class Precision(ABC):
    """One precision; a subclass states what differs."""

    name: ClassVar[str]
    plainness: ClassVar[
        int
    ]  # 0 for the plainest; the more can go wrong, the higher: of ties, the least is taken
    element_bytes: ClassVar[int] = FULL_BYTES  # of activations, and of parameters that FSDP2 gathers
    is_loss_scaled: ClassVar[bool] = False  # gradients are scaled, which their noise cannot be read from
    cpu_refusal: ClassVar[str] = ""  # why a CPU does not take it; "" where it does

    @abstractmethod
    def peak_flop_per_s(self, gpu: Gpu) -> float | None:
        """Dense peak of the unit that PyTorch uses on ``gpu``; None where the chip has none."""

    @property
    def order(self) -> tuple[int, ...]:
        """Plainest first; of equals, the one that keeps more of fp32."""
        return self.plainness, -self.element_bytes

    @property
    def rates_of(self) -> str:
        """The precision whose rows of ``estimate/reference.json`` say what kernels reach: its own."""
        return self.name

    @property
    def is_half(self) -> bool:
        """Whether autocast keeps activations in fewer bytes than fp32."""
        return self.element_bytes < FULL_BYTES

    def uses_units(self, gpu: Gpu) -> bool:
        """Whether products run on matrix units there, and not on the fp32 lanes."""
        return (self.peak_flop_per_s(gpu) or 0.0) > gpu.fp32_flop_per_s

    def refusal(self, gpu: Gpu) -> str:
        """Why it is not tried on ``gpu``; "" where it is."""
        if gpu.kind is DeviceKind.CPU:
            return self.cpu_refusal
        return "" if self.has_unit(gpu) else f"{gpu.name} has no {self.name} tensor cores"

    def has_unit(self, gpu: Gpu) -> bool:
        """Whether a GPU has what it is for; the figure of its unit, unless said otherwise."""
        return bool(self.peak_flop_per_s(gpu))
