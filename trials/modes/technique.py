"""What a technique does to a model, its optimizer or its compilation."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from trials.model_file.contract import Step


class Technique:
    """One technique; a subclass states what differs from one that does nothing."""

    name: ClassVar[str]
    position: ClassVar[int] = 0  # among those that are on: the lower, the earlier it is applied
    is_traced: ClassVar[bool] = False  # what `prepare` does changes the operations of a step
    is_fixed_shape: ClassVar[bool] = (
        False  # another batch size, or a pass without communication, costs minutes
    )

    @property
    def order(self) -> tuple[int, ...]:
        """In which they are applied."""
        return (self.position,)

    def refusal(self, device: torch.device) -> str | None:
        """Why it cannot run on ``device`` here; None where it can."""
        return None

    def prepare(self, step: Step) -> None:
        """Change the modules, before anything wraps them. Raises Unsupported where they cannot take it."""

    def on_block(self, block: nn.Module) -> None:
        """Change a block that is about to be sharded on its own."""

    def on_whole(self, module: nn.Module) -> None:
        """Change what the parallelism made, where it does not shard block by block."""

    def on_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimizer to train with in the place of the model file's."""
        return optimizer
