"""Activation checkpointing: blocks are computed again in the backward pass instead of kept."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch.utils.checkpoint import checkpoint

from trials.errors import Unsupported
from trials.model_file.blocks import NO_BLOCKS, find_blocks
from trials.model_file.contract import Step
from trials.modes.technique import Technique


class ActivationCheckpointing(Technique):
    """Non-reentrant, every block."""

    name = "activation_checkpointing"
    is_traced = True

    def prepare(self, step: Step) -> None:
        blocks = find_blocks(step.model)
        if not blocks:
            raise Unsupported(f"activation checkpointing: {NO_BLOCKS}")
        for module in step.model.modules():
            config: Any = getattr(module, "config", None)  # Hugging Face's; a T5 decoder has one of its own
            if getattr(config, "use_cache", False):
                config.use_cache = False  # recomputing would fill a key-value cache twice
        for block in blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)


MODES = (ActivationCheckpointing(),)
