"""The configurations that a GPU type and count admit for a target run, and what is left out, with the reason.

Every configuration satisfies micro batch x accumulation x workers = global batch size exactly, so that the
planned run trains the user's batch and not one near it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from catalogs.gpus import DeviceKind, Gpu
from planner.modes import PARALLELISMS, PRECISIONS, TECHNIQUES
from planner.modes.technique import Technique
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
    """What may vary."""

    precisions: tuple[str, ...] = field(default_factory=lambda: PRECISIONS.names)
    techniques: Mapping[str, bool] = field(default_factory=dict)  # asked for, or not; others as they see fit
    missing: frozenset[str] = frozenset()  # software; on GPUs that are not at hand every image can install it
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
    """Every admissible configuration, plainest first; empty when the batch cannot be divided."""
    knobs = knobs or Knobs()
    group = Group(rank_count=gpu_count, node_count=node_count)
    return tuple(
        TrialConfig(
            gpu=gpu.name,
            gpu_count=gpu_count,
            node_count=node_count,
            micro_batch_size=micro_batch_size,
            accumulation=per_replica // micro_batch_size,
            precision=precision,
            parallelism=parallelism,
            techniques=techniques,
            workers_per_replica=gpu_count // PARALLELISMS[parallelism].replicas(group),
        ).loaded(loading)
        for loading in knobs.loadings
        for techniques in _technique_sets(gpu, profile, knobs)
        for parallelism in _parallelisms(gpu, group, profile)
        for precision in _precisions(gpu, knobs)
        if all(TECHNIQUES[one].goes_with(parallelism, precision) for one in techniques)
        for per_replica in _exact(target.global_batch_size, PARALLELISMS[parallelism].replicas(group))
        for micro_batch_size in divisors(per_replica)
    )


def _exact(samples: int, replicas: int) -> tuple[int, ...]:
    """Samples of one replica; none where they cannot be divided."""
    return () if samples % replicas else (samples // replicas,)


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
    found = [(one.plainness, one.name, one.refusal(gpu, profile)) for one in PARALLELISMS]
    found += [(one.plainness, one.label, _technique_refusal(one, gpu, profile, knobs)) for one in TECHNIQUES]
    for _, knob, reason in sorted(found, key=lambda one: one[0]):
        if reason:
            yield Exclusion(knob=knob, reason=reason)
    for note in profile.notes:
        yield Exclusion(knob="model", reason=note)


def _precisions(gpu: Gpu, knobs: Knobs) -> tuple[str, ...]:
    return tuple(one for one in knobs.precisions if not PRECISIONS[one].refusal(gpu))


def _parallelisms(gpu: Gpu, group: Group, profile: WorkloadProfile) -> tuple[str, ...]:
    return tuple(one.name for one in PARALLELISMS if one.takes(group) and not one.refusal(gpu, profile))


def _technique_sets(gpu: Gpu, profile: WorkloadProfile, knobs: Knobs) -> Iterator[tuple[str, ...]]:
    """Every combination, the plainest first: of each knob's techniques none, or one."""
    choices: dict[str, list[tuple[str, ...]]] = {}
    for one in TECHNIQUES:
        taken = choices.setdefault(one.knob, [()])
        if not _technique_refusal(one, gpu, profile, knobs):
            taken.append((one.name,))
    for some in itertools.product(*reversed(choices.values())):
        yield tuple(itertools.chain.from_iterable(some))


def _technique_refusal(one: Technique, gpu: Gpu, profile: WorkloadProfile, knobs: Knobs) -> str:
    is_asked = knobs.techniques.get(one.name)
    if is_asked is False:
        return "not asked for"
    for need in one.needs:
        if need in knobs.missing:
            return f"no {need} on the node"
    return one.refusal(gpu, profile, is_asked=is_asked is True)
