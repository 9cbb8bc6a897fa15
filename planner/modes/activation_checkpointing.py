"""Activation checkpointing: each block keeps its input only, and is computed again in the backward pass."""

from __future__ import annotations

from catalogs.gpus import Gpu
from planner.modes.parallelism import NO_BLOCKS
from planner.modes.technique import Technique
from trials.api import WorkloadProfile


class ActivationCheckpointing(Technique):
    """One more forward on top of forward and backward, which is twice a forward (Chen et al. 2016)."""

    name = "activation_checkpointing"
    label = "activation checkpointing"
    short_label = "checkpointed"
    plainness = 1
    is_traced = True
    time_factor = 4.0 / 3.0
    log_spread = 0.06
    unlikeness = 0.1

    def refusal(self, gpu: Gpu, profile: WorkloadProfile, *, is_asked: bool) -> str:
        return "" if profile.block_count else NO_BLOCKS


MODES = (ActivationCheckpointing(),)
