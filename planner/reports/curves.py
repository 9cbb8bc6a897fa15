"""The estimator's curves through what was measured, for the plots over the micro batch size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from catalogs.gpus import Gpu
from planner.estimate.setting import Setting, technique_of, vcpus_used
from planner.estimate.values import Hardware
from planner.plans.candidates import StepEstimator
from planner.plans.space import divisors
from planner.reports.report import Curve, CurvePoint
from trials.api import Measurement, Outcome

REACH = 2  # curves end at twice the largest micro batch size that was measured


def fitted_curves(
    outcomes: Iterable[Outcome], gpus: Mapping[str, Gpu], estimator: StepEstimator
) -> tuple[Curve, ...]:
    """A curve for every measured technique on every measured device, over the admissible batch sizes.

    Args:
        outcomes: of one workload and target; what is not a measurement on a catalog device is left out.
        gpus: figures by catalog name.
        estimator: fitted to ``outcomes``.
    """
    by_technique: dict[Setting, list[Measurement]] = {}
    for one in outcomes:
        if isinstance(one, Measurement) and one.config.gpu in gpus:
            by_technique.setdefault(technique_of(one.config), []).append(one)
    return tuple(
        Curve(points=_points(group, gpus[technique.gpu], estimator))
        for technique, group in by_technique.items()
    )


def _points(group: list[Measurement], gpu: Gpu, estimator: StepEstimator) -> tuple[CurvePoint, ...]:
    known = group[0]
    hardware = Hardware(gpu=gpu, link=gpu.link, vcpus=vcpus_used(known))
    per_worker = known.config.global_batch_size // known.config.gpu_count
    largest = max(one.config.micro_batch_size for one in group) * REACH
    points = []
    for size in divisors(per_worker):
        if size > largest:
            break
        config = replace(known.config, micro_batch_size=size, accumulation=per_worker // size)
        step_time_s = estimator.step_time_s(config, hardware)
        points.append(
            CurvePoint(
                config=config,
                throughput_per_s=step_time_s.inverse(config.global_batch_size) if step_time_s else None,
                peak_memory_bytes=estimator.peak_memory_bytes(config, hardware),
            )
        )
    return tuple(points)
