"""The configurations that a GPU type and count admit for a target run, and what is left out, with the reason.

Every configuration satisfies micro batch x accumulation x workers = global batch size exactly, so that the
planned run trains the user's batch and not one near it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from catalogs.gpus import DeviceKind, Gpu
from planner.target import Target
from trials.profile import WorkloadProfile
from trials.trial import Loading, Parallelism, Precision, TrialConfig

SPACE_VERSION = 1  # in the study's attributes: configurations of different versions are not mixed
CPU_WORKER_COUNT_MAX = 2  # more processes on one CPU only divide the same cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A knob's value that is not tried, and why."""

    knob: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What may vary.

    ``is_compile_allowed`` None means on GPUs only. ``has_compiler`` is None where nobody has looked: on GPUs
    that are not at hand a compiler is taken for granted, since every image can install one.
    """

    precisions: tuple[Precision, ...] = tuple(Precision)
    is_compile_allowed: bool | None = None
    has_compiler: bool | None = None
    loadings: tuple[Loading, ...] = (Loading(),)


@cache
def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a positive integer, ascending."""
    low = [one for one in range(1, int(number**0.5) + 1) if number % one == 0]
    return tuple(sorted({*low, *(number // one for one in low)}))


def worker_counts(gpu: Gpu, worker_count_max: int, target: Target) -> tuple[int, ...]:
    """Powers of two, and the whole group, that divide the global batch size."""
    cap = min(worker_count_max, CPU_WORKER_COUNT_MAX) if gpu.kind is DeviceKind.CPU else worker_count_max
    powers = itertools.takewhile(lambda count: count <= cap, (2**power for power in itertools.count()))
    return tuple(sorted(count for count in {*powers, cap} if target.global_batch_size % count == 0))


def configs_for(
    target: Target,
    gpu: Gpu,
    gpu_count: int,
    node_count: int,
    profile: WorkloadProfile,
    knobs: Knobs | None = None,
) -> tuple[TrialConfig, ...]:
    """Every admissible configuration, plainest first; empty when ``gpu_count`` does not divide the batch."""
    if target.global_batch_size % gpu_count:
        return ()
    knobs = knobs or Knobs()
    per_worker = target.global_batch_size // gpu_count
    return tuple(
        TrialConfig(
            gpu=gpu.name,
            gpu_count=gpu_count,
            node_count=node_count,
            micro_batch_size=micro_batch_size,
            accumulation=per_worker // micro_batch_size,
            precision=precision,
            parallelism=parallelism,
            is_checkpointed=is_checkpointed,
            is_compiled=is_compiled,
        ).loaded(loading)
        for loading in knobs.loadings
        for is_compiled in ((False,) if _why_not_compiled(gpu, knobs) else (False, True))
        for is_checkpointed in ((False, True) if profile.block_count else (False,))
        for parallelism in _parallelisms(gpu_count, profile)
        for precision in _precisions(gpu, knobs)
        for micro_batch_size in divisors(per_worker)
    )


def exclusions(gpu: Gpu, profile: WorkloadProfile, knobs: Knobs | None = None) -> tuple[Exclusion, ...]:
    """What is not tried on this GPU with this model, one reason each."""
    knobs = knobs or Knobs()
    return tuple(_exclusions(gpu, profile, knobs))


def _exclusions(gpu: Gpu, profile: WorkloadProfile, knobs: Knobs) -> Iterator[Exclusion]:
    taken = _precisions(gpu, knobs)
    for precision in Precision:
        if precision in taken:
            continue
        if precision not in knobs.precisions:
            yield Exclusion(knob=precision, reason="not asked for")
        elif gpu.kind is DeviceKind.CPU:
            yield Exclusion(knob=precision, reason=_CPU_REASONS[precision])
        else:
            yield Exclusion(knob=precision, reason=f"{gpu.name} has no {precision} tensor cores")
    if not profile.block_count:
        reason = "no repeated blocks were found in this model to wrap"
        yield Exclusion(knob="activation checkpointing", reason=reason)
        yield Exclusion(knob="fsdp2", reason=reason)
    why_not = _why_not_compiled(gpu, knobs)
    if why_not:
        yield Exclusion(knob="torch.compile", reason=why_not)
    for note in profile.notes:
        yield Exclusion(knob="model", reason=note)


_CPU_REASONS = {
    Precision.TF32: "a CPU has no TF32 units",
    Precision.FP16: "fp16 is emulated on CPU, tens of times slower than fp32",
}


def _precisions(gpu: Gpu, knobs: Knobs) -> tuple[Precision, ...]:
    """fp32 everywhere; the others where the chip has the unit; bf16 on CPU is native to PyTorch there."""
    if gpu.kind is DeviceKind.CPU:
        has = {Precision.FP32, Precision.BF16}
    else:
        has = {
            Precision.FP32,
            *([Precision.TF32] if gpu.tf32_flop_per_s else []),
            *([Precision.BF16] if gpu.bf16_flop_per_s else []),
            *([Precision.FP16] if gpu.fp16_flop_per_s else []),
        }
    return tuple(one for one in knobs.precisions if one in has)


def _parallelisms(gpu_count: int, profile: WorkloadProfile) -> Iterable[Parallelism]:
    if gpu_count == 1:
        return (Parallelism.SINGLE,)
    return (Parallelism.DDP, Parallelism.FSDP2) if profile.block_count else (Parallelism.DDP,)


def _why_not_compiled(gpu: Gpu, knobs: Knobs) -> str:
    """The reason why torch.compile is not tried; "" where it is."""
    if knobs.is_compile_allowed is False:
        return "not asked for"
    if knobs.has_compiler is False:
        return "no C compiler on the node"
    if knobs.is_compile_allowed is None and gpu.kind is DeviceKind.CPU:
        return "compiling for a CPU takes about a minute for each configuration; --compile asks for it"
    return ""
