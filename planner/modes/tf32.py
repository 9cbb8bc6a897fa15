"""TF32: fp32 tensors whose products run on the tensor cores of Ampere and later."""

from __future__ import annotations

from catalogs.gpus import Gpu
from planner.modes.precision import Precision


class Tf32(Precision):
    """fp32 in memory; 10 bits of mantissa in products."""

    name = "tf32"
    plainness = 1
    cpu_refusal = "a CPU has no TF32 units"

    def peak_flop_per_s(self, gpu: Gpu) -> float | None:
        """On a chip without the unit plain fp32, which is what PyTorch then really computes."""
        return gpu.tf32_flop_per_s or gpu.fp32_flop_per_s

    def uses_units(self, gpu: Gpu) -> bool:
        """On GeForce too, whose units are no faster than its lanes."""
        return gpu.tf32_flop_per_s is not None

    def has_unit(self, gpu: Gpu) -> bool:
        return bool(gpu.tf32_flop_per_s)


MODES = (Tf32(),)
