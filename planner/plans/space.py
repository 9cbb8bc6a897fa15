"""The configurations that a GPU type and count admit for a target run, and what is left out, with the reason.

Every configuration satisfies micro batch x accumulation x workers = global batch size exactly, so that the
planned run trains the user's batch and not one near it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from catalogs.gpus import DeviceKind, Gpu
from planner.modes import PARALLELISMS, PRECISIONS
from planner.modes.parallelism import NO_BLOCKS
from planner.modes.terms import Group
from planner.target import Target
from trials.api import Loading, TrialConfig, WorkloadProfile

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

    precisions: tuple[str, ...] = field(default_factory=lambda: PRECISIONS.names)
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
    group = Group(rank_count=gpu_count, node_count=node_count)
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
        for parallelism in _parallelisms(gpu, group, profile)
        for precision in _precisions(gpu, knobs)
        for micro_batch_size in divisors(per_worker)
    )


def exclusions(gpu: Gpu, profile: WorkloadProfile, knobs: Knobs | None = None) -> tuple[Exclusion, ...]:
    """What is not tried on this GPU with this model, one reason each."""
    knobs = knobs or Knobs()
    return tuple(_exclusions(gpu, profile, knobs))


def _exclusions(gpu: Gpu, profile: WorkloadProfile, knobs: Knobs) -> Iterator[Exclusion]:
    for precision in PRECISIONS:
        if precision.name not in knobs.precisions:
            yield Exclusion(knob=precision.name, reason="not asked for")
        elif why := precision.refusal(gpu):
            yield Exclusion(knob=precision.name, reason=why)
    if not profile.block_count:
        yield Exclusion(knob="activation checkpointing", reason=NO_BLOCKS)
    for parallelism in PARALLELISMS:
        if why := parallelism.refusal(gpu, profile):
            yield Exclusion(knob=parallelism.name, reason=why)
    why_not = _why_not_compiled(gpu, knobs)
    if why_not:
        yield Exclusion(knob="torch.compile", reason=why_not)
    for note in profile.notes:
        yield Exclusion(knob="model", reason=note)


def _precisions(gpu: Gpu, knobs: Knobs) -> tuple[str, ...]:
    return tuple(one for one in knobs.precisions if not PRECISIONS[one].refusal(gpu))


def _parallelisms(gpu: Gpu, group: Group, profile: WorkloadProfile) -> tuple[str, ...]:
    return tuple(one.name for one in PARALLELISMS if one.takes(group) and not one.refusal(gpu, profile))


def _why_not_compiled(gpu: Gpu, knobs: Knobs) -> str:
    """The reason why torch.compile is not tried; "" where it is."""
    if knobs.is_compile_allowed is False:
        return "not asked for"
    if knobs.has_compiler is False:
        return "no C compiler on the node"
    if knobs.is_compile_allowed is None and gpu.kind is DeviceKind.CPU:
        return "compiling for a CPU takes about a minute for each configuration; --compile asks for it"
    return ""
