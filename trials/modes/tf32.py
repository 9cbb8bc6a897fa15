"""TF32: fp32 products on the tensor cores of Ampere and later."""

from __future__ import annotations

from trials.modes.precision import AMPERE, Precision


class Tf32(Precision):
    """The operations are fp32's."""

    name = "tf32"
    is_tf32 = True
    capability_min = AMPERE
    cpu_refusal = "TF32 exists on NVIDIA GPUs only"


MODES = (Tf32(),)
