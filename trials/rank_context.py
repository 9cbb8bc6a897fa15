"""Where one worker of a trial runs, and how it agrees with the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from trials.errors import PeerFailed
from trials.measurement import Measurement

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """One rank of a trial: its device, and the process group of all the trial's ranks."""

    rank: int = 0
    world_size: int = 1
    device: str = "cpu"  # "cpu" or "cuda:0"
    process_group: Any | None = None  # gloo on CPU, nccl on CUDA; None for a world of one
    threads: int | None = None  # of torch on CPU; None leaves them as they are
    ray_version: str | None = None
    report: Callable[[Measurement], None] | None = None  # keeps what stands, should the trial not end well

    @property
    def torch_device(self) -> torch.device:
        """The device as a ``torch.device``."""
        return torch.device(self.device)

    def largest(self, values: Sequence[float]) -> list[float]:
        """Each value's largest over the ranks; every rank calls it."""
        return self._reduce(values, dist.ReduceOp.MAX)

    def mean(self, values: Sequence[float]) -> list[float]:
        """Each value's mean over the ranks; every rank calls it."""
        return [value / self.world_size for value in self._reduce(values, dist.ReduceOp.SUM)]

    def together(self, action: Callable[[], T]) -> T:
        """Do something that a rank may fail at alone; when one fails, all raise instead of waiting for it.

        The action must not communicate: where one rank fails in the midst of a collective, the others stay in
        it, and there is no telling them here.
        """
        error: BaseException | None = None
        done: list[T] = []
        try:
            done.append(action())
        except (Exception, SystemExit) as one:  # noqa: BLE001  (raised again below)
            error = one
        has_failed = self.largest([float(error is not None)])[0] > 0
        if error is not None:
            raise error
        if has_failed:
            raise PeerFailed("another rank could not prepare the trial")
        return done[0]

    def _reduce(self, values: Sequence[float], operation: Any) -> list[float]:
        if self.process_group is None:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.torch_device)
        dist.all_reduce(tensor, op=operation, group=self.process_group)
        result: list[float] = tensor.tolist()
        return result
