"""fp16: autocast to float16 with a loss scale, since its exponents are too few for small gradients."""

from __future__ import annotations

from catalogs.gpus import Gpu
from planner.modes.precision import Precision


class Fp16(Precision):
    """Native on tensor cores from Volta on."""

    name = "fp16"
    plainness = 2
    element_bytes = 2
    is_loss_scaled = True
    cpu_refusal = "fp16 is emulated on CPU, tens of times slower than fp32"

    def peak_flop_per_s(self, gpu: Gpu) -> float | None:
        return gpu.fp16_flop_per_s


MODES = (Fp16(),)
