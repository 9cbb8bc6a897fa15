"""Several processes that must save at the same step; a lone one needs none of this."""

from __future__ import annotations

import time
from typing import Any


class Ranks:
    """This process among those of torch.distributed, or alone. Exchanges go over gloo, on the CPU.

    They are about ``agree_every_s`` apart: one after every step would cost small models speed.
    """

    def __init__(self, agree_every_s: float) -> None:
        import torch.distributed as dist

        self._agree_every_s = agree_every_s
        self.rank, self.count = 0, 1
        self._group: Any = None
        self.writing: Any = None  # the group of what is written beside the training; None alone
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            self.rank, self.count = dist.get_rank(), dist.get_world_size()
            self._group = dist.new_group(backend="gloo")
            self.writing = dist.new_group(backend="gloo")
        self._stride = 1
        self._ticks = 0
        self._agreed_at_s = time.monotonic()

    def close(self) -> None:
        """Give the group back."""
        if self._group is not None:
            import torch.distributed as dist

            dist.destroy_process_group(self._group)
            dist.destroy_process_group(self.writing)
            self._group = self.writing = None

    def agree(self, is_due: bool, is_stopping: bool, *, is_forced: bool) -> tuple[bool, bool]:  # noqa: FBT001
        """Whether any process wants to save or was told to stop; the same answer in all of them.

        Between exchanges the answer is no. How many steps lie between them is agreed as well.
        """
        if self._group is None:
            return is_due, is_stopping
        self._ticks += 1
        if self._ticks < self._stride and not is_forced:
            return False, False
        step_s = max(1e-6, (time.monotonic() - self._agreed_at_s) / self._ticks)
        due, stopping, slowest_ns = self._maxima(int(is_due), int(is_stopping), int(step_s * 1e9))
        self._stride = max(1, int(self._agree_every_s * 1e9 / slowest_ns))
        self._ticks = 0
        self._agreed_at_s = time.monotonic()
        return bool(due), bool(stopping)

    def any_of(self, is_true: bool) -> bool:  # noqa: FBT001
        """Whether it is true in any process."""
        return is_true if self._group is None else bool(self._maxima(int(is_true))[0])

    def from_first(self, value: Any) -> Any:
        """What the first process has."""
        if self._group is None:
            return value
        import torch.distributed as dist

        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def must_write(self, states: Any) -> bool:
        """Whether this process has state of its own to write: the first one, and all if it is sharded."""
        return self.rank == 0 or (self._group is not None and _is_sharded(states))

    def _maxima(self, *values: int) -> list[int]:
        import torch
        import torch.distributed as dist

        tensor = torch.tensor(values, dtype=torch.int64)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self._group)
        return [int(one) for one in tensor.tolist()]


def _is_sharded(state: Any) -> bool:
    from torch.distributed.tensor import DTensor

    if isinstance(state, dict):
        return any(_is_sharded(one) for one in state.values())
    if isinstance(state, (list, tuple)):
        return any(_is_sharded(one) for one in state)
    return isinstance(state, DTensor)
