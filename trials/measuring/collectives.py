"""A short probe of the links between the workers of a trial: collectives by message size, as nccl-tests does.

Every rank calls it. Times are the slowest rank's, and what is decided from them is decided alike everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from trials.extras import Collective, CollectiveTimes, LinkProbe
from trials.rank_context import RankContext

SIZES_BYTES = {"cpu": (1 << 16, 1 << 20, 1 << 23), "cuda": (1 << 16, 1 << 20, 1 << 24, 1 << 27)}
LIMIT_S = 1.5  # of all repeats; a size that would break it is left out
_REPEATS_MIN, _REPEATS_MAX = 3, 20
_ITEM_BYTES = 4
# the names since torch 2.13, and those before it, which warn there
_ALL_GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
_REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


def probe_links(context: RankContext, node_count: int, limit_s: float = LIMIT_S) -> LinkProbe:
    """Time all-reduce, all-gather and reduce-scatter over the trial's own process group (two ranks or more).

    Raises on all ranks together where memory is short.
    """
    sizes_bytes = SIZES_BYTES[context.torch_device.type]
    slot_s = limit_s / (len(sizes_bytes) * len(Collective))
    found: list[CollectiveTimes] = []
    for message_bytes in sizes_bytes:
        if any(_expected_s(one, message_bytes) * (_REPEATS_MIN + 2) > slot_s for one in found):
            break
        found += _time_all(context, message_bytes, slot_s)
    return LinkProbe(
        backend="nccl" if context.torch_device.type == "cuda" else "gloo",
        rank_count=context.world_size,
        node_count=node_count,
        times=tuple(found),
    )


def _expected_s(seen: CollectiveTimes, message_bytes: int) -> float:
    return min(seen.times_s) * message_bytes / seen.message_bytes if seen.message_bytes >= 1 << 20 else 0.0


def _time_all(context: RankContext, message_bytes: int, slot_s: float) -> Iterator[CollectiveTimes]:
    length = message_bytes // _ITEM_BYTES // context.world_size

    def allocate() -> tuple[Tensor, Tensor]:
        whole = torch.zeros(length * context.world_size, device=context.torch_device)
        return whole, torch.zeros(length, device=context.torch_device)

    whole, part = context.together(allocate)
    group = context.process_group
    actions: dict[Collective, Callable[[], object]] = {
        Collective.ALL_REDUCE: lambda: dist.all_reduce(whole, group=group),
        Collective.ALL_GATHER: lambda: _ALL_GATHER(whole, part, group=group),
        Collective.REDUCE_SCATTER: lambda: _REDUCE_SCATTER(part, whole, group=group),
    }
    for collective, action in actions.items():
        _seconds(context, action)  # connections and buffers are made at the first one
        [first_s] = context.largest([_seconds(context, action)])
        count = max(_REPEATS_MIN, min(_REPEATS_MAX, int(slot_s / first_s)))
        times_s = context.largest([_seconds(context, action) for _ in range(count)])
        yield CollectiveTimes(
            collective=collective,
            message_bytes=length * context.world_size * _ITEM_BYTES,
            times_s=tuple(times_s),
        )


def _seconds(context: RankContext, action: Callable[[], object]) -> float:
    _settle(context)
    begun_s = time.perf_counter()
    action()
    _settle(context)
    return time.perf_counter() - begun_s


def _settle(context: RankContext) -> None:
    if context.torch_device.type == "cuda":
        torch.cuda.synchronize(context.torch_device)
