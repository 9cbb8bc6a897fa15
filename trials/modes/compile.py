"""torch.compile with its default mode."""

from __future__ import annotations

import shutil

import torch
from torch import nn

from trials.modes.technique import Technique

_CAPABILITY_MIN = (7, 0)


class Compile(Technique):
    """Around DDP, since it splits the graph at the buckets, so that gradients travel early; else by block."""

    name = "compile"
    position = 1  # it compiles what the others made
    is_fixed_shape = True

    def refusal(self, device: torch.device) -> str | None:
        if device.type == "cpu" and not any(map(shutil.which, ("g++", "clang++"))):
            return "torch.compile on CPU needs a C++ compiler (g++), and this machine has none"
        if device.type == "cuda" and torch.cuda.get_device_capability(device) < _CAPABILITY_MIN:
            return "torch.compile needs a GPU of compute capability 7.0"
        return None

    def on_block(self, block: nn.Module) -> None:
        block.forward = torch.compile(block.forward)

    def on_whole(self, module: nn.Module) -> None:
        module.compile()


MODES = (Compile(),)
