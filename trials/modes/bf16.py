"""bf16: autocast to bfloat16."""

from __future__ import annotations

import torch

from trials.modes.precision import AMPERE, Precision


class Bf16(Precision):
    """Emulated, and slow, before Ampere."""

    name = "bf16"
    dtype = torch.bfloat16
    is_traced = True
    capability_min = AMPERE


MODES = (Bf16(),)
