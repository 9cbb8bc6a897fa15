"""Peak memory of one rank.

On CUDA the caching allocator's own counters, from the first step on. On CPU the same quantity, made of two
parts: the tensors that are held between two steps (parameters, buffers, optimizer state, DDP's buckets), and
the most that torch's allocator held on top of them within one more step.

What the kernel knows of the process is no such measure. Its high-water mark: glibc keeps freed blocks in ways
that depend on every trial before, and a step with activation checkpointing that needs 29 MB showed 85 to
149 MB (64 MB and 77 to 118 MB without it). Its resident set between two steps: a model that holds 1.8 MB
showed 1.3 to 2.5 MB. On CPU that slack, the interpreter and its libraries, about 0.4 GB, come on top of what
is reported, as the CUDA context does on a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

_MEMORY_EVENT = "[memory]"  # torch's name for an allocation (positive bytes) or a release (negative)


def forget_peak(device: torch.device) -> None:
    """Before the first step: what building the model left counts no more."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what building the model left reserved
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(
    device: torch.device, module: nn.Module, optimizer: torch.optim.Optimizer, take_step: Callable[[], object]
) -> tuple[int, int | None]:
    """Peak bytes allocated and reserved since ``forget_peak``; nothing is reserved on CPU.

    On CPU ``take_step`` is called once, under torch's profiler.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    _start_profiler()
    return held_bytes(module, optimizer) + _most_allocated_bytes(take_step), None


def held_bytes(module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """What a rank holds between two steps, when gradients are freed: each storage once, shards as shards."""
    storages: dict[int, int] = {}
    for tensor in _held(module, optimizer):
        storage = (tensor.to_local() if isinstance(tensor, DTensor) else tensor).untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    buckets_bytes = 0
    if isinstance(module, DistributedDataParallel):  # a second place for every gradient
        buckets_bytes = sum(one.nbytes for one in module.parameters() if one.requires_grad)
    return sum(storages.values()) + buckets_bytes


def _held(module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()
    for one in module.modules():  # tables that nobody registered
        yield from (value for value in vars(one).values() if isinstance(value, Tensor))
    yield from _tensors_in(optimizer.state)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors_in(one)


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
def _start_profiler() -> None:
    """Profile nothing, once per process: starting in a thread, its library writes to stderr."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with _quiet():
        _most_allocated_bytes(lambda: None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what is written to stderr, by C too; no setting of the library does."""
    kept = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(sink)


def _trim() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)
