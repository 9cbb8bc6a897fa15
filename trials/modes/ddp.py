"""DistributedDataParallel: a copy of the model on each worker."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trials.modes.parallelism import Parallelism, Plan, on_device, trainable


class Ddp(Parallelism):
    """As torch has it, told of unused parameters where there are any."""

    name = "ddp"

    def wrap(self, plan: Plan) -> nn.Module:
        step = on_device(plan)
        module = DistributedDataParallel(
            step,
            process_group=plan.context.process_group,
            find_unused_parameters=has_unused_parameters(plan),
        )
        for technique in plan.techniques:
            technique.on_whole(module)
        return module

    def synchronised(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        return nullcontext() if is_last else self.silenced(module)

    def silenced(self, module: nn.Module) -> AbstractContextManager[None]:
        assert isinstance(module, DistributedDataParallel)
        return module.no_sync()

    def copies_bytes(self, module: nn.Module) -> int:
        """Buckets: a second place for every gradient."""
        return sum(one.nbytes for one in trainable(module))


def has_unused_parameters(plan: Plan) -> bool:
    """Whether any rank's backward pass leaves a trainable parameter without gradient.

    DDP would wait for it for ever, or must be told to look (find_unused_parameters), which costs time: so it
    is found out by one small step.
    """
    step, context = plan.step, plan.context
    context.together(lambda: plan.probe(step).backward())
    has_unused = any(one.grad is None for one in trainable(step))
    step.zero_grad(set_to_none=True)
    return context.largest([float(has_unused)])[0] > 0


MODES = (Ddp(),)
