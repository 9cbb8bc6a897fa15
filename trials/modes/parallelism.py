"""What a parallelism does: it wraps the model, and says when gradients travel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from trials.model_file.contract import Step
from trials.modes.precision import Precision
from trials.modes.technique import Technique
from trials.rank_context import RankContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a parallelism wraps, and with what."""

    step: Step  # prepared by precision and techniques, on the CPU
    context: RankContext
    precision: Precision
    techniques: Sequence[Technique]
    probe: Callable[[Step], Any]  # the loss of a small batch


class Parallelism(ABC):
    """One way to share a model among workers; a subclass states what differs from a copy on one."""

    name: ClassVar[str]
    is_sharded: ClassVar[bool] = False  # every worker saves its part of a checkpoint
    is_always_synchronised: ClassVar[bool] = False  # every micro batch communicates, not the last one only

    @property
    def order(self) -> tuple[int, ...]:
        """By name."""
        return ()

    def refusal(self, context: RankContext) -> str | None:
        """Why the workers of ``context`` cannot train so; None where they can."""
        return f"{self.name.upper()} needs at least two workers" if context.world_size == 1 else None

    @abstractmethod
    def wrap(self, plan: Plan) -> nn.Module:
        """The step as it trains, on its device; all ranks call it."""

    def share(self, context: RankContext) -> tuple[int, int]:
        """Which part of the samples this rank sees: its index, and of how many parts."""
        return context.rank, context.world_size

    def build_optimizer(
        self, build: Callable[[Step], torch.optim.Optimizer], step: Step, module: nn.Module
    ) -> torch.optim.Optimizer:
        """The model file's optimizer of the wrapped parameters."""
        return build(step)

    def run_micro_batches(self, module: nn.Module, count: int, run: Callable[[], None]) -> None:
        """Fetch and pass ``count`` micro batches; ``run`` does one."""
        for index in range(count):
            with self.synchronised(module, is_last=index == count - 1):
                run()

    def synchronised(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """The context of a pass; gradients travel once per optimizer step, with its last micro batch."""
        return nullcontext()

    def silenced(self, module: nn.Module) -> AbstractContextManager[None]:
        """The context of a pass without communication, whose gradients are of no use."""
        return nullcontext()

    def can_be_silent(self, module: nn.Module, context: RankContext) -> bool:
        """Whether passes without communication can be run; all ranks call it."""
        return True

    def copies_bytes(self, module: nn.Module) -> int:
        """Bytes held between two steps beside parameters, buffers and the optimizer's state."""
        return 0


def on_device(plan: Plan) -> Step:
    """The step of ``plan``, moved to its device on all ranks or none."""
    plan.context.together(lambda: plan.step.to(plan.context.torch_device))
    return plan.step


def trainable(module: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters that get gradients."""
    return (one for one in module.parameters() if one.requires_grad)
