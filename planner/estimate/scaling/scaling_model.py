"""Scaling by what was measured: the constants of `overlap`, fitted to a few counts of workers.

The time of a synchronisation comes from `collectives` and two slowdowns (within and between nodes; 1 = as the
link figures say), which a few measured counts calibrate, and a probe of the links alone: with two workers in
a node and two on two nodes both are known; with one worker only, they keep the width of their priors, and
the estimate says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.estimate.scaling.calibrate import Fit, Prior, Vector, fit_constants, log_scale_of, unmeasured
from planner.estimate.scaling.collectives import Fabric, collective_s
from planner.estimate.scaling.overlap import scaling_priors, slowed, together_s, waiting
from planner.estimate.scaling.probe import CollectiveProbe
from planner.estimate.scaling.traffic import Waits
from planner.modes.terms import Group, Traffic, WorkerStep

POINT_NOISE_FRACTION = 0.05  # of a measured step time against this formula
PROBE_NOISE_FRACTION = 0.1
"""Of a probed collective's time: NCCL changes protocol and channels with size, which the formula does not."""
_RATE_FROM_BYTES = 1 << 20  # smaller messages tell the latency, which has no constant here

ERROR_FLOOR = 0.05
"""Log error of a count whose traffic hardly matters: clocks, placement, the day."""
ERROR_PER_DOUBLING = 0.10
"""Log error that each doubling of the workers beyond the measured count adds to the traffic: rings of another
shape, more switches, contention, which alpha and beta do not know."""
SCORE_QUANTILES = {0.5: 0.3, 0.8: 0.85, 0.9: 1.25, 0.95: 1.75}
"""Of |log(measured / predicted)| in units of `ScalingModel.error_scale` (its side), over the workloads of
benchmarks/estimate/scaling_sia_t4.py and scaling_llm_foundry.py, both data sets weighing the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """A measured step on several workers, and what one worker alone takes for its share of it."""

    work: WorkerStep
    group: Group
    step_s: float
    traffic: Traffic | None = None  # where it is not the workload's in fp32


def fit_scaling(
    points: Sequence[ScalingPoint],
    parallelism: str,
    traffic: Traffic,
    fabric: Fabric,
    priors: Mapping[str, Prior] | None = None,
    probes: Sequence[CollectiveProbe] = (),
) -> ScalingModel:
    """Scaling of one workload under one parallelism, from the counts that were measured (there may be none).

    Args:
        points: measured steps on two or more workers.
        parallelism: its name.
        traffic: of the workers.
        fabric: links of the machines that the points were measured on.
        priors: of the constants; `scaling_priors` unless given.
        probes: of the links alone, on the same machines.
    """
    believed = dict(priors or scaling_priors(parallelism, traffic, fabric))
    messages = [
        (one, size_bytes, seconds)
        for one in probes
        for size_bytes, seconds in one.samples
        if one.collective in traffic.collectives and size_bytes >= _RATE_FROM_BYTES
    ]
    if not points and not messages:
        fit = unmeasured(believed)
    else:
        measured = np.array([*(one.step_s for one in points), *(seconds for *_, seconds in messages)])
        noises = [POINT_NOISE_FRACTION] * len(points) + [PROBE_NOISE_FRACTION] * len(messages)

        def predict(constants: Mapping[str, float]) -> Vector:
            waits = [waiting(one.traffic or traffic, one.group, fabric, constants) for one in points]
            steps = [
                together_s(one.work, wait, one.group, constants)
                for one, wait in zip(points, waits, strict=True)
            ]
            links = {**constants, "traffic": 1.0}  # a probe's bytes are known
            times = [
                collective_s(one.collective, size_bytes, one.group, slowed(fabric, one.group, links))
                for one, size_bytes, _ in messages
            ]
            return np.array([*steps, *times])

        fit = fit_constants(believed, predict, measured, noise_fraction=np.array(noises))
    return ScalingModel(traffic=traffic, fabric=fabric, fit=fit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingModel:
    """Step time by count; made by `fit_scaling`."""

    traffic: Traffic
    fabric: Fabric
    fit: Fit
    _waits: dict[tuple[Group, Fabric], tuple[Waits, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def carrying(self, traffic: Traffic) -> ScalingModel:
        """The same links and constants under other traffic."""
        return replace(self, traffic=traffic, _waits={})

    def step_s(self, work: WorkerStep, group: Group, fabric: Fabric | None = None) -> float:
        """Seconds per optimizer step of ``group``, over ``fabric`` where it is not the measured one."""
        waits = self._waits_at(group, fabric or self.fabric)[0]
        return together_s(work, waits, group, self.fit.constants)

    def synchronisation_s(self, group: Group, fabric: Fabric | None = None) -> float:
        """Seconds of one synchronisation with nothing hidden, whether it comes per step or micro batch."""
        waits = self._waits_at(group, fabric or self.fabric)[0]
        return waits.step_s + waits.micro_batch_s

    def _waits_at(self, group: Group, fabric: Fabric) -> tuple[Waits, ...]:
        """At each of the constants' reaches; the first is what is expected."""
        key = (group, fabric)
        if key not in self._waits:
            self._waits[key] = tuple(
                waiting(self.traffic, group, fabric, constants) for constants in self.fit.reaches()
            )
        return self._waits[key]

    def error_scale(
        self, work: WorkerStep, group: Group, *, measured_count: int, fabric: Fabric | None = None
    ) -> tuple[float, float]:
        """Log error of `step_s` to expect below and above, up to a factor that conformal prediction supplies.

        The uncertain constants, a floor, and what doubling the workers adds to the share of the step that is
        waiting. At confidence c the half widths are these times `SCORE_QUANTILES[c]`.

        Args:
            work: one worker's step.
            group: the count asked for.
            measured_count: the largest number of workers that was measured.
            fabric: where it is not the measured one.
        """
        at = fabric or self.fabric
        alone_s = work.accumulation * work.micro_batch_s + work.per_step_s
        waiting = max(0.0, 1.0 - alone_s / self.step_s(work, group, at))
        doublings = abs(math.log2(group.rank_count / measured_count))
        formula = math.hypot(ERROR_FLOOR, ERROR_PER_DOUBLING * doublings * waiting)
        below, above = log_scale_of(
            [
                together_s(work, waits, group, constants)
                for waits, constants in zip(self._waits_at(group, at), self.fit.reaches(), strict=True)
            ]
        )
        return math.hypot(below, formula), math.hypot(above, formula)

    def micro_batch_s(self, step_s: float, work: WorkerStep, group: Group) -> float:
        """What one worker's micro batch takes, from a step measured on ``group``: `step_s` inverted.

        ``work.micro_batch_s`` is ignored. At least a hundredth of the time per micro batch: a step that is
        all traffic says nothing about compute.
        """
        waits = self._waits_at(group, self.fabric)[0]
        low, high = 0.0, step_s / work.accumulation
        for _ in range(50):
            middle = 0.5 * (low + high)
            trial = WorkerStep(
                micro_batch_s=middle, accumulation=work.accumulation, per_step_s=work.per_step_s
            )
            took_s = together_s(trial, waits, group, self.fit.constants)
            low, high = (low, middle) if took_s > step_s else (middle, high)
        return max(high, 0.01 * step_s / work.accumulation)
