"""Step time of data-parallel training on k workers of n nodes: compute, traffic, overlap, stragglers.

One worker's micro batch takes c seconds, synchronising takes S, and the two overlap to a degree that AdaptDL
(Qiao et al., Pollux, OSDI 2021) writes as a p-norm::

    (c^g + S^g)^(1/g)        g = 1: nothing hidden;  g -> infinity: the longer one alone

* DDP reduces the gradients once per optimizer step, during the last of A micro batches:
  (A-1) c + (c^g + S^g)^(1/g). Accumulation therefore lowers the traffic per sample.
* FSDP2 gathers the parameters of every block for the forward and again for the backward pass, and scatters
  the reduced gradients, in every micro batch: A (c^g + S^g)^(1/g). Each block waits for its own parameters
  with one block of prefetch, and the copies share SMs and memory with the compute, so g is near 1.

The step ends with the slowest of k workers: if one worker's time has a standard deviation of s, the expected
maximum is s times that of k standard normals (Blom 1958), about 1.4 s at 8 workers and 3 s at 512.

S comes from `collectives` and two slowdowns (within and between nodes; 1 = as the link figures say), which a
few measured counts calibrate, and a probe of the links alone: with two workers in a node and two on two nodes
both are known; with one worker only, they keep the width of their priors, and the estimate says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from planner.estimate.calibrate import Fit, Prior, Vector, fit_constants, log_scale_of, unmeasured
from planner.estimate.collectives import Collective, Fabric, Group, Transport, collective_s
from planner.estimate.probe import CollectiveProbe
from planner.estimate.traffic import Traffic, ddp_traffic, fsdp2_traffic, synchronisation_s
from trials.trial import Parallelism

__all__ = [
    "SCORE_QUANTILES",
    "ScalingModel",
    "ScalingPoint",
    "Traffic",
    "WorkerStep",
    "ddp_traffic",
    "expected_maximum_normal",
    "fit_scaling",
    "fsdp2_traffic",
    "scaling_priors",
]

POINT_NOISE_FRACTION = 0.05  # of a measured step time against this formula
PROBE_NOISE_FRACTION = 0.1
"""Of a probed collective's time: NCCL changes protocol and channels with size, which the formula does not."""
_RATE_FROM_BYTES = 1 << 20  # smaller messages tell the latency, which has no constant here
_COLLECTIVES = {  # that a synchronisation is made of
    Parallelism.SINGLE: frozenset[Collective](),
    Parallelism.DDP: frozenset({Collective.ALL_REDUCE}),
    Parallelism.FSDP2: frozenset({Collective.ALL_GATHER, Collective.REDUCE_SCATTER}),
}

ERROR_FLOOR = 0.05
"""Log error of a count whose traffic hardly matters: clocks, placement, the day."""
ERROR_PER_DOUBLING = 0.10
"""Log error that each doubling of the workers beyond the measured count adds to the traffic: rings of another
shape, more switches, contention, which alpha and beta do not know."""
SCORE_QUANTILES = {0.5: 0.3, 0.8: 0.85, 0.9: 1.25, 0.95: 1.75}
"""Of |log(measured / predicted)| in units of `ScalingModel.error_scale` (its side), over the workloads of
benchmarks/estimate/scaling_sia_t4.py and scaling_llm_foundry.py, both data sets weighing the same."""

LINK_FACTORS = {  # how far a link's real rate lies from `collectives.LINK_EFFICIENCY` times its figure
    Transport.NVLINK: 1.3,
    Transport.PCIE: 1.8,
    Transport.HOST: 2.0,
    Transport.RDMA: 1.4,
    Transport.TCP: 3.0,  # one flow, several, or in a placement group all of the figure; neighbours
    Transport.GLOO: 2.0,
}
_UNKNOWN_TRAFFIC = Prior(median=4.0, factor=10.0)  # times 25 MiB: models of 1 M to 1 G parameters
_KNOWN_TRAFFIC = Prior(median=1.0, factor=1.0)
_OVERLAP = {
    Parallelism.DDP: Prior(median=1.6, factor=1.5, low=1.0, high=10.0),
    Parallelism.FSDP2: Prior(median=1.15, factor=1.15, low=1.0, high=10.0),
}
_TWO_WAY = Prior(median=0.8, factor=1.25, low=0.5, high=1.0)
"""Rate over TCP between two nodes, of that in a ring of three or more. With two, both directions of the ring
lie between the same hosts, where data of one queue with acknowledgements of the other (Zhang, Shenker, Clark,
SIGCOMM 1991; Heusse et al. 2011). The T4 nodes of benchmarks/estimate/scaling_sia_t4.py show about 0.63;
other networks need not, so it is half of that in log, and uncertain."""
_LINK_SPREAD = {Transport.TCP: 0.1, Transport.RDMA: 0.02}
"""Standard deviation of the rate between nodes, as a fraction: a ring goes at the pace of its slowest link.
Public clouds vary (Uta et al., NSDI 2020); 10% is a cautious middle. Fabrics for RDMA are not shared."""
_STRAGGLER = Prior(median=0.01, factor=1.5)
"""Spread of one worker's step on a dedicated GPU, from clocks and temperature: about 1%, an estimate."""
SHARED_BUS = 0.5
"""Workers of a node without NVLink share host bridges and memory: their rate falls by (workers/2)^x, where
x = 0 is a lane for each and 1 is one bus for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStep:
    """One worker's optimizer step with no one to wait for."""

    micro_batch_s: float  # forward and backward of one micro batch
    accumulation: int = 1  # micro batches per step
    per_step_s: float = 0.0  # once per step: optimizer (of its shard under FSDP2), clipping, host work


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """A measured step on several workers, and what one worker alone takes for its share of it."""

    work: WorkerStep
    group: Group
    step_s: float


def scaling_priors(parallelism: Parallelism, traffic: Traffic, fabric: Fabric) -> dict[str, Prior]:
    """What is believed of the constants of `step_s` before several workers were measured."""
    return {
        "traffic": _KNOWN_TRAFFIC if traffic.gradient_bytes is not None else _UNKNOWN_TRAFFIC,
        "intra_slowdown": Prior(median=1.0, factor=LINK_FACTORS[fabric.intra.transport]),
        "inter_slowdown": Prior(median=1.0, factor=LINK_FACTORS[fabric.inter.transport]),
        "two_way": _TWO_WAY if fabric.inter.transport is Transport.TCP else Prior(median=1.0, factor=1.0),
        "overlap": _OVERLAP.get(parallelism, Prior(median=1.0, factor=1.0)),
        "straggler": _STRAGGLER,
    }


def fit_scaling(
    points: Sequence[ScalingPoint],
    parallelism: Parallelism,
    traffic: Traffic,
    fabric: Fabric,
    priors: Mapping[str, Prior] | None = None,
    probes: Sequence[CollectiveProbe] = (),
) -> ScalingModel:
    """Scaling of one workload under one parallelism, from the counts that were measured (there may be none).

    Args:
        points: measured steps on two or more workers.
        parallelism: DDP or FSDP2.
        traffic: of one synchronisation.
        fabric: links of the machines that the points were measured on.
        priors: of the constants; `scaling_priors` unless given.
        probes: of the links alone, on the same machines.
    """
    believed = dict(priors or scaling_priors(parallelism, traffic, fabric))
    messages = [
        (one, size_bytes, seconds)
        for one in probes
        for size_bytes, seconds in one.samples
        if one.collective in _COLLECTIVES[parallelism] and size_bytes >= _RATE_FROM_BYTES
    ]
    if not points and not messages:
        fit = unmeasured(believed)
    else:
        measured = np.array([*(one.step_s for one in points), *(seconds for *_, seconds in messages)])
        noises = [POINT_NOISE_FRACTION] * len(points) + [PROBE_NOISE_FRACTION] * len(messages)

        def predict(constants: Mapping[str, float]) -> Vector:
            steps = [_step_s(one.work, parallelism, traffic, one.group, fabric, constants) for one in points]
            links = {**constants, "traffic": 1.0}  # a probe's bytes are known
            times = [
                collective_s(one.collective, size_bytes, one.group, _slowed(fabric, one.group, links))
                for one, size_bytes, _ in messages
            ]
            return np.array([*steps, *times])

        fit = fit_constants(believed, predict, measured, noise_fraction=np.array(noises))
    return ScalingModel(parallelism=parallelism, traffic=traffic, fabric=fabric, fit=fit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingModel:
    """Step time by count; made by `fit_scaling`."""

    parallelism: Parallelism
    traffic: Traffic
    fabric: Fabric
    fit: Fit
    _waits: dict[tuple[Group, Fabric], tuple[float, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def step_s(self, work: WorkerStep, group: Group, fabric: Fabric | None = None) -> float:
        """Seconds per optimizer step of ``group``, over ``fabric`` where it is not the measured one."""
        wait_s = self._waits_at(group, fabric or self.fabric)[0]
        return _together_s(work, self.parallelism, wait_s, group, self.fit.constants)

    def synchronisation_s(self, group: Group, fabric: Fabric | None = None) -> float:
        """Seconds of one synchronisation with nothing hidden: per step (DDP) or micro batch (FSDP2)."""
        return self._waits_at(group, fabric or self.fabric)[0]

    def _waits_at(self, group: Group, fabric: Fabric) -> tuple[float, ...]:
        """Of one synchronisation, at each of the constants' reaches; the first is what is expected."""
        key = (group, fabric)
        if key not in self._waits:
            self._waits[key] = tuple(
                _synchronisation_s(self.parallelism, self.traffic, group, fabric, constants)
                for constants in self.fit.reaches()
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
                _together_s(work, self.parallelism, wait_s, group, constants)
                for wait_s, constants in zip(self._waits_at(group, at), self.fit.reaches(), strict=True)
            ]
        )
        return math.hypot(below, formula), math.hypot(above, formula)

    def micro_batch_s(self, step_s: float, work: WorkerStep, group: Group) -> float:
        """What one worker's micro batch takes, from a step measured on ``group``: `step_s` inverted.

        ``work.micro_batch_s`` is ignored. At least a hundredth of the time per micro batch: a step that is
        all traffic says nothing about compute.
        """
        wait_s = self.synchronisation_s(group)
        low, high = 0.0, step_s / work.accumulation
        for _ in range(50):
            middle = 0.5 * (low + high)
            trial = WorkerStep(
                micro_batch_s=middle, accumulation=work.accumulation, per_step_s=work.per_step_s
            )
            took_s = _together_s(trial, self.parallelism, wait_s, group, self.fit.constants)
            low, high = (low, middle) if took_s > step_s else (middle, high)
        return max(high, 0.01 * step_s / work.accumulation)


@lru_cache(maxsize=1024)
def expected_maximum_normal(count: int) -> float:
    """Mean of the largest of ``count`` standard normals, by Blom's approximation; 0 for one."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0


def _step_s(
    work: WorkerStep,
    parallelism: Parallelism,
    traffic: Traffic,
    group: Group,
    fabric: Fabric,
    constants: Mapping[str, float],
) -> float:
    wait_s = _synchronisation_s(parallelism, traffic, group, fabric, constants)
    return _together_s(work, parallelism, wait_s, group, constants)


def _together_s(
    work: WorkerStep, parallelism: Parallelism, wait_s: float, group: Group, constants: Mapping[str, float]
) -> float:
    """Compute and ``wait_s`` per synchronisation overlapped, for the slowest worker of ``group``."""
    micro_s, exponent = work.micro_batch_s, max(1.0, constants["overlap"])
    together_s = _norm(micro_s, wait_s, exponent)
    if parallelism is Parallelism.FSDP2:
        compute_s = work.accumulation * together_s
    else:
        compute_s = (work.accumulation - 1) * micro_s + together_s
    straggling = 1.0 + constants["straggler"] * expected_maximum_normal(group.rank_count)
    return (compute_s + work.per_step_s) * straggling


def _norm(first: float, second: float, exponent: float) -> float:
    longer = max(first, second)
    if longer == 0.0:
        return 0.0
    return longer * float((1.0 + (min(first, second) / longer) ** exponent) ** (1.0 / exponent))


def _synchronisation_s(
    parallelism: Parallelism,
    traffic: Traffic,
    group: Group,
    fabric: Fabric,
    constants: Mapping[str, float],
) -> float:
    if group.rank_count <= 1:
        return 0.0
    return synchronisation_s(parallelism, traffic, group, _slowed(fabric, group, constants))


def _slowed(fabric: Fabric, group: Group, constants: Mapping[str, float]) -> Fabric:
    """The fabric at the rates that the constants say, with its shared bus when it has one."""
    crowd = 1.0
    if fabric.intra.transport in (Transport.PCIE, Transport.HOST) and group.ranks_per_node > 1:
        crowd = (group.ranks_per_node / 2.0) ** SHARED_BUS
    pair = constants["two_way"] if group.node_count == 2 else 1.0  # noqa: PLR2004
    slowest = 1.0 + _LINK_SPREAD.get(fabric.inter.transport, 0.0) * expected_maximum_normal(group.node_count)
    volume = constants["traffic"]  # more bytes at a rate are the same bytes at a lower rate
    return fabric.at_rates(
        intra=1.0 / (constants["intra_slowdown"] * crowd * volume),
        inter=pair / (constants["inter_slowdown"] * slowest * volume),
    )
