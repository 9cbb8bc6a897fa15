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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile, record_function
from torch.distributed.tensor import DTensor

from trials.measurement import PeakParts
from trials.measuring.step import Moment, Training

_MEMORY_EVENT = "[memory]"  # torch's name for an allocation (positive bytes) or a release (negative)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Peak memory of this rank over its steps, in bytes; reserved by the allocator only on CUDA."""

    allocated_bytes: int
    reserved_bytes: int | None  # None on CPU
    parts: PeakParts
    usable_bytes: int | None = None  # reserved, and what the driver has left; None on CPU


def forget_peak(device: torch.device) -> None:
    """Before the first step: what building the model left counts no more."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what building the model left reserved
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device, training: Training, take_step: Callable[[], object]) -> Peak:
    """The peak since ``forget_peak``, and its parts in one step of ``training`` more: every rank calls it."""
    if device.type == "cuda":
        return _peak_on_cuda(device, training, take_step)
    _start_profiler()
    parts = _parts_on_cpu(training, take_step)
    return Peak(allocated_bytes=max(parts.passes_bytes, parts.update_bytes), reserved_bytes=None, parts=parts)


def _peak_on_cuda(device: torch.device, training: Training, take_step: Callable[[], object]) -> Peak:
    before = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    base_bytes = passes_bytes = 0

    def note(moment: Moment) -> None:
        nonlocal base_bytes, passes_bytes
        if moment is Moment.MICRO_BATCH:
            base_bytes = torch.cuda.memory_allocated(device)
        else:
            passes_bytes = torch.cuda.max_memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)

    torch.cuda.reset_peak_memory_stats(device)
    with training.told(note):
        take_step()
    update_bytes = torch.cuda.max_memory_allocated(device)
    return Peak(
        allocated_bytes=max(before[0], passes_bytes, update_bytes),
        reserved_bytes=max(before[1], torch.cuda.max_memory_reserved(device)),
        parts=PeakParts(base_bytes=base_bytes, passes_bytes=passes_bytes, update_bytes=update_bytes),
        usable_bytes=torch.cuda.memory_reserved(device) + torch.cuda.mem_get_info(device)[0],
    )


def _parts_on_cpu(training: Training, take_step: Callable[[], object]) -> PeakParts:
    held = held_bytes(training.module, training.optimizer) + training.copies_bytes()

    def note(moment: Moment) -> None:
        with record_function(moment):
            pass

    with profile(profile_memory=True) as profiler, training.told(note):
        take_step()
    now = base = most = passes = held
    for event in sorted(profiler.kineto_results.events(), key=lambda one: one.start_ns()):
        if event.name() == _MEMORY_EVENT:
            now += event.nbytes()
            most = max(most, now)
        elif event.name() == Moment.MICRO_BATCH:
            base = now
        elif event.name() == Moment.UPDATE:
            passes, most = most, now
    return PeakParts(base_bytes=base, passes_bytes=passes, update_bytes=most)


def held_bytes(module: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """What a rank holds between two steps, when gradients are freed: each storage once, shards as shards."""
    storages: dict[int, int] = {}
    for tensor in _held(module, optimizer):
        storage = (tensor.to_local() if isinstance(tensor, DTensor) else tensor).untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def _held(module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()
    for part in module.modules():  # tables that nobody registered
        yield from (value for value in vars(part).values() if isinstance(value, Tensor))
    yield from _tensors_in(optimizer.state)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors_in(item)


def fullest(ranks: Sequence[PeakParts]) -> PeakParts | None:
    """Each part's largest over the ranks, in bytes; None where there is no rank."""
    if not ranks:
        return None
    return PeakParts(
        base_bytes=max(parts.base_bytes for parts in ranks),
        passes_bytes=max(parts.passes_bytes for parts in ranks),
        update_bytes=max(parts.update_bytes for parts in ranks),
    )


def release(device: torch.device) -> None:
    """Give a finished trial's memory back to the device and the kernel. Call with no exception in flight."""
    gc.collect()
    if device.type == "cuda":
        with suppress(RuntimeError):  # after an illegal access CUDA refuses every call of this process
            torch.cuda.empty_cache()
    _trim()


@functools.cache
def _start_profiler() -> None:
    """Profile nothing, once per process: starting in a thread, its library writes to stderr."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with _quiet(), profile(profile_memory=True):
        pass


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
