"""fp16: autocast to float16, with a scaled loss."""

from __future__ import annotations

import torch

from trials.modes.precision import Precision


class Fp16(Precision):
    """It has too few exponents for small gradients."""

    name = "fp16"
    dtype = torch.float16
    is_loss_scaled = True


MODES = (Fp16(),)
