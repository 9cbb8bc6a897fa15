"""One worker."""

from __future__ import annotations

from torch import nn

from trials.modes.parallelism import Parallelism, Plan, on_device
from trials.rank_context import RankContext


class Single(Parallelism):
    """The model as it is."""

    name = "single"

    def refusal(self, context: RankContext) -> str | None:
        if context.world_size == 1:
            return None
        return f"one process cannot use {context.world_size} workers; choose DDP or FSDP2"

    def wrap(self, plan: Plan) -> nn.Module:
        step = on_device(plan)
        for technique in plan.techniques:
            technique.on_whole(step)
        return step


MODES = (Single(),)
