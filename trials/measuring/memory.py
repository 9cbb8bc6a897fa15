"""Peak memory of one rank.

On CUDA the caching allocator's own counters, from the first step on. On CPU the same quantity, made of two
parts: what the process holds between two steps, over what it held before the model was built (its resident
set, free pages given back first), and the most that torch's allocator held on top of that within one more
step.

The process's own high-water mark is no such measure: glibc keeps freed blocks in ways that depend on every
trial before, and a step with activation checkpointing that needs 29 MB showed 85 to 149 MB (64 MB and 77 to
118 MB without it). On CPU that slack, the interpreter and its libraries, about 0.4 GB, come on top of what is
reported, as the CUDA context does on a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch.autograd.profiler import profile

_MEMORY_EVENT = "[memory]"  # torch's name for an allocation (positive bytes) or a release (negative)
_STATM = Path("/proc/self/statm")  # sizes in pages, the resident set second: proc(5)


class PeakMemory:
    """Made before the model is built; ``start`` before the first step, ``read`` after the last."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._is_cuda = device.type == "cuda"
        self._before_bytes = 0
        if not self._is_cuda:
            _load_lazy_libraries()
            self._before_bytes = _resident_bytes()

    def start(self) -> None:
        """Forget earlier peaks."""
        if self._is_cuda:
            torch.cuda.empty_cache()  # what building the model left reserved
            torch.cuda.reset_peak_memory_stats(self._device)

    def read(self, take_step: Callable[[], object]) -> tuple[int, int | None]:
        """Peak bytes allocated and reserved since ``start``; nothing is reserved on CPU.

        On CPU ``take_step`` is called once, under torch's profiler.
        """
        if self._is_cuda:
            return torch.cuda.max_memory_allocated(self._device), torch.cuda.max_memory_reserved(self._device)
        held_bytes = max(_resident_bytes() - self._before_bytes, 0)
        return held_bytes + _most_allocated_bytes(take_step), None


def release(device: torch.device) -> None:
    """Give a finished trial's memory back to the device and the kernel. Call with no exception in flight."""
    gc.collect()
    if device.type == "cuda":
        with suppress(RuntimeError):  # after an illegal access CUDA refuses every call of this process
            torch.cuda.empty_cache()
    _trim()


def _most_allocated_bytes(take_step: Callable[[], object]) -> int:
    """The most that a step holds at once on top of what was held before it."""
    with profile(profile_memory=True) as profiler:
        take_step()
    events = [one for one in profiler.kineto_results.events() if one.name() == _MEMORY_EVENT]
    now_bytes = peak_bytes = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        now_bytes += event.nbytes()
        peak_bytes = max(peak_bytes, now_bytes)
    return peak_bytes


@functools.cache
def _load_lazy_libraries() -> None:
    """Take one tiny step, once per process: torch loads about 100 MB of its own at the first one."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(torch.zeros(2, 1, 3, 3)).sum().backward()
        optimizer.step()

    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with _quiet():
        _most_allocated_bytes(step)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the profiler's library from writing to stderr as it starts in a thread; no setting does."""
    kept = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(sink)


def _resident_bytes() -> int:
    """What this process holds in memory, free pages of the C library's heap given back first."""
    gc.collect(
        1
    )  # recent garbage; a full collection takes 0.15 s with torch loaded, and one a trial is enough
    _trim()
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _trim() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)
