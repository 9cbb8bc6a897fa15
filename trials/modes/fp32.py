"""fp32: torch as it is."""

from __future__ import annotations

from trials.modes.precision import Precision


class Fp32(Precision):
    """Nothing changes."""

    name = "fp32"
    is_traced = True


MODES = (Fp32(),)
