"""bf16: autocast to bfloat16, which has the exponents of fp32 and needs no scaling."""

from __future__ import annotations

from catalogs.gpus import Gpu
from planner.modes.precision import Precision


class Bf16(Precision):
    """Native on tensor cores from Ampere on, and to PyTorch on CPU."""

    name = "bf16"
    plainness = 1
    element_bytes = 2

    def peak_flop_per_s(self, gpu: Gpu) -> float | None:
        return gpu.bf16_flop_per_s


MODES = (Bf16(),)
