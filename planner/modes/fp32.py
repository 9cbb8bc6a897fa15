"""fp32: what every device computes, and what the others are compared with."""

from __future__ import annotations

from catalogs.gpus import Gpu
from planner.modes.precision import REFERENCE, Precision


class Fp32(Precision):
    """On the fp32 lanes; tensor cores stay idle."""

    name = REFERENCE
    plainness = 0

    def peak_flop_per_s(self, gpu: Gpu) -> float | None:
        return gpu.fp32_flop_per_s


MODES = (Fp32(),)
