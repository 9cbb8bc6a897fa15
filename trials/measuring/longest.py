"""The longest batch that the data can give, where the lengths of samples vary: what a run meets some day.

The lengths are looked at once per worker and workload; a trial of another size finds them known.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch.utils.data import default_collate

from trials.model_file.loader import BatchFunction, DatasetSource, DataSource

LIMIT_S = 5.0  # for looking at the lengths of samples


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Lengths:
    """What was seen of a workload's samples."""

    key: tuple[str, int | None]  # the workload and the size of its dataset
    size: float  # how many of the longest are kept: all where they can be asked for again
    longest: list[tuple[int, int, Any]]  # length, index and, of an iterable dataset, the sample; none alike


_last_seen: _Lengths | None = None  # by this process


def longest_batch(
    source: DataSource, size: int, sha256: str, limit_s: float = LIMIT_S
) -> Callable[[], Any] | None:
    """Makes a batch of the ``size`` longest samples; None where lengths do not vary or nobody can say.

    As many samples are looked at as ``limit_s`` allows, spread over the dataset; an iterable one is read from
    its start. Fewer than ``size`` are repeated: a batch of the longest needs the most memory. ``sha256`` is
    the workload's.
    """
    global _last_seen  # noqa: PLW0603  (a warm worker's memory from trial to trial)
    if isinstance(source, BatchFunction):
        return None
    key = (sha256, source.size)
    if _last_seen is None or _last_seen.key != key or _last_seen.size < size:
        _last_seen = _look(source, key, size, limit_s)
    found = _last_seen.longest[:size]
    if not found:
        return None
    samples = [sample if source.is_iterable else source.dataset[index] for _, index, sample in found]
    full = [samples[index % len(samples)] for index in range(size)]
    return lambda: (source.collate or default_collate)(full)


def _look(source: DatasetSource, key: tuple[str, int | None], size: int, limit_s: float) -> _Lengths:
    kept_count = size if source.is_iterable else math.inf
    deadline_s = time.monotonic() + limit_s
    longest: list[tuple[int, int, Any]] = []
    lengths: set[int] = set()
    for index, sample in _spread(source):
        length = _length(sample)
        lengths.add(length)
        one = (length, index, sample if source.is_iterable else None)
        if len(longest) < kept_count:
            heapq.heappush(longest, one)
        elif length > longest[0][0]:
            heapq.heapreplace(longest, one)
        if time.monotonic() > deadline_s:
            break
    if len(lengths) <= 1:
        return _Lengths(key=key, size=math.inf, longest=[])
    return _Lengths(key=key, size=kept_count, longest=sorted(longest, reverse=True))


def _spread(source: DatasetSource) -> Iterator[tuple[int, Any]]:
    """Samples with their indices from all over the dataset; an iterable dataset's from its start.

    A sample that cannot be read is passed over: a step that meets it says so better.
    """
    if source.is_iterable:
        with suppress(Exception):
            yield from enumerate(source.dataset)
        return
    count = len(source.dataset)
    stride = next(one for one in range(max(1, round(count * 0.618)), count + 2) if math.gcd(one, count) == 1)
    for index in range(count):
        at = index * stride % count
        with suppress(Exception):
            yield at, source.dataset[at]


def _length(sample: Any) -> int:
    """Values in a sample: of tensors, arrays, lists and texts in it."""
    if isinstance(sample, torch.Tensor):
        return sample.numel()
    if isinstance(sample, str | bytes):
        return len(sample)
    if isinstance(sample, Mapping):
        return sum(map(_length, sample.values()))
    if isinstance(sample, list | tuple):
        return sum(map(_length, sample))
    if dataclasses.is_dataclass(sample):
        return sum(_length(getattr(sample, field.name)) for field in dataclasses.fields(sample))
    return int(getattr(sample, "size", 1)) if isinstance(getattr(sample, "size", 1), int) else 1
