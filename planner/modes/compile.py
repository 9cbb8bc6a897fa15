"""torch.compile with its default mode."""

from __future__ import annotations

from catalogs.gpus import DeviceKind, Gpu
from planner.modes.technique import Technique
from trials.api import WorkloadProfile


class Compile(Technique):
    """TorchInductor's training speed-ups lie between 1.0 and 1.6 (PyTorch 2, ASPLOS 2024)."""

    name = "compile"
    label = "torch.compile"
    short_label = "compiled"
    plainness = 2
    needs = ("C compiler",)
    has_own_numerics = True
    has_own_start = True
    is_shown_first = True
    time_factor = 0.85
    log_spread = 0.2
    unlikeness = 0.3

    def refusal(self, gpu: Gpu, profile: WorkloadProfile, *, is_asked: bool) -> str:
        if gpu.kind is DeviceKind.CPU and not is_asked:
            return "compiling for a CPU takes about a minute for each configuration; --compile asks for it"
        return ""


MODES = (Compile(),)
