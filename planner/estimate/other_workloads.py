"""Other workloads measured on two chips each: how wrong `workload_decomposition` is there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from catalogs.gpus import Gpu
from planner.estimate.time.measured import measured_settings
from planner.estimate.time.traced import traced_steps
from planner.estimate.transfer.compute import Compute, fit_compute, predicted_ratio, traced_optimizer_s
from planner.estimate.transfer.cross_workload import (
    CrossWorkloadRatio,
    CrossWorkloadRatios,
    fit_cross_workload,
)
from planner.estimate.transfer.transfer_path import Anchor
from planner.estimate.workers import probes_by_gpu, reduce_to_one
from trials.api import Measurement, WorkloadProfile

PairOfChips = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWorkload:
    """Another workload, as `fit` would be told of it."""

    measurements: Sequence[Measurement]
    profile: WorkloadProfile | None = None
    tensor_count: int = 1


def cross_workload_ratios(
    peers: Mapping[str, OtherWorkload], gpus: Mapping[str, Gpu], *, is_training: bool = True
) -> dict[PairOfChips, CrossWorkloadRatios]:
    """By source and target chip, what workloads measured on both have to say.

    Args:
        peers: by name; one that is itself asked about is not heard then (`fit` with its name).
        gpus: catalog by name.
        is_training: whether their steps have a backward pass.
    """
    found: dict[PairOfChips, list[CrossWorkloadRatio]] = {}
    for workload, peer in peers.items():
        traced = traced_steps(peer.profile.traces) if peer.profile is not None else {}
        plain = [one for one in peer.measurements if one.config.loader_worker_count is None]
        sources = measured_settings(plain, gpus, partial(traced_optimizer_s, traced))
        starts = reduce_to_one(sources, peer.profile, probes_by_gpu(plain))
        for source_gpu in sorted({one.chip.gpu for one in starts}):
            known = [one for one in starts if one.chip.gpu == source_gpu]
            compute = fit_compute(known, traced, is_training=is_training, tensor_count=peer.tensor_count)
            for before in known:
                for after in starts:
                    if after.chip.gpu != source_gpu and _is_alike(before, after):
                        pair = (source_gpu, after.chip.gpu)
                        found.setdefault(pair, []).extend(_between(workload, before, after, compute))
    return {pair: fit_cross_workload(ratios) for pair, ratios in found.items() if ratios}


def _between(workload: str, before: Anchor, after: Anchor, compute: Compute) -> list[CrossWorkloadRatio]:
    """One ratio per batch size that both chips were measured at."""
    setting = before.source.setting
    mix = compute.mixes[setting.techniques]
    sizes = sorted(set(before.source.line.micro_batch_sizes) & set(after.source.line.micro_batch_sizes))
    ratios = []
    for size in sizes:
        source_s, target_s = before.micro_batch_s(size), after.micro_batch_s(size)
        predicted = predicted_ratio(workload, mix, before.chip, after.chip, size, source_s)
        ratios.append(
            CrossWorkloadRatio(
                predicted=replace(predicted, workload=workload), true_log_ratio=math.log(target_s / source_s)
            )
        )
    return ratios


def _is_alike(one: Anchor, other: Anchor) -> bool:
    """Whether two settings differ in the chip only."""
    mine, yours = one.source.setting, other.source.setting
    return replace(mine, gpu=yours.gpu, vcpus=yours.vcpus) == yours
