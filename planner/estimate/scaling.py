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
few measured counts calibrate: with two workers in a node and two on two nodes both are known; with one worker
only, they keep the width of their priors, and the estimate says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from planner.estimate.calibrate import Fit, Prior, Vector, fit_constants, unmeasured
from planner.estimate.collectives import Collective, Fabric, Group, Transport, collective_s
from trials.trial import Parallelism

DDP_BUCKET_BYTES = 25 * 1024**2  # torch.nn.parallel.DistributedDataParallel bucket_cap_mb
POINT_NOISE_FRACTION = 0.05  # of a measured step time against this formula

_LINK_FACTORS = {  # how far a link's real rate lies from `collectives.LINK_EFFICIENCY` times its figure
    Transport.NVLINK: 1.3,
    Transport.PCIE: 1.6,
    Transport.HOST: 2.0,
    Transport.RDMA: 1.4,
    Transport.TCP: 2.5,  # flow caps, sharing, steal: clouds differ by that much
    Transport.GLOO: 2.0,
}
_UNKNOWN_TRAFFIC_FACTOR = 20.0  # the gradients' bytes are unknown: only measuring tells
_OVERLAP = {
    Parallelism.DDP: Prior(median=1.6, factor=1.5, low=1.0, high=10.0),
    Parallelism.FSDP2: Prior(median=1.15, factor=1.15, low=1.0, high=10.0),
}
_STRAGGLER = Prior(median=0.01, factor=1.5)
"""Spread of one worker's step on a dedicated GPU: clocks and temperature, 1% (MLPerf logs: 0.5 to 2%)."""
_SHARED_BUS = 0.5
"""Workers of a node without NVLink share host bridges and memory: their rate falls by (workers/2)^x, where
x = 0 is a lane for each and 1 is one bus for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStep:
    """One worker's optimizer step with no one to wait for."""

    micro_batch_s: float  # forward and backward of one micro batch
    accumulation: int = 1  # micro batches per step
    per_step_s: float = 0.0  # once per step: optimizer (of its shard under FSDP2), clipping, host work


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one synchronisation exchanges; the bytes are those of the whole model."""

    gradient_bytes: float | None  # as they are reduced; None where nobody knows the model's size
    parameter_bytes: float = 0.0  # as FSDP2 gathers them; 0 under DDP
    message_count: int = 1  # collectives per pass: buckets of DDP, blocks of FSDP2
    gather_count: int = 2  # of the parameters per micro batch; 1 if they stay after the forward pass


def ddp_traffic(trainable_parameter_count: int, bytes_per_gradient: int = 4) -> Traffic:
    """Gradients of DDP in buckets of 25 MiB."""
    gradient_bytes = float(trainable_parameter_count * bytes_per_gradient)
    return Traffic(
        gradient_bytes=gradient_bytes, message_count=max(1, math.ceil(gradient_bytes / DDP_BUCKET_BYTES))
    )


def fsdp2_traffic(
    parameter_count: int,
    block_count: int,
    *,
    bytes_per_parameter: int,
    bytes_per_gradient: int,
    is_resharded_after_forward: bool = True,
) -> Traffic:
    """Parameters and gradients of FSDP2, gathered and scattered block by block (the root is one more)."""
    return Traffic(
        gradient_bytes=float(parameter_count * bytes_per_gradient),
        parameter_bytes=float(parameter_count * bytes_per_parameter),
        message_count=block_count + 1,
        gather_count=2 if is_resharded_after_forward else 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """A measured step on several workers, and what one worker alone takes for its share of it."""

    work: WorkerStep
    group: Group
    step_s: float


def scaling_priors(parallelism: Parallelism, traffic: Traffic, fabric: Fabric) -> dict[str, Prior]:
    """What is believed of the constants of `step_s` before several workers were measured."""
    intra, inter = _LINK_FACTORS[fabric.intra.transport], _LINK_FACTORS[fabric.inter.transport]
    if traffic.gradient_bytes is None:
        intra = inter = _UNKNOWN_TRAFFIC_FACTOR
    return {
        "intra_slowdown": Prior(median=1.0, factor=intra),
        "inter_slowdown": Prior(median=1.0, factor=inter),
        "overlap": _OVERLAP.get(parallelism, Prior(median=1.0, factor=1.0)),
        "straggler": _STRAGGLER,
    }


def fit_scaling(
    points: Sequence[ScalingPoint],
    parallelism: Parallelism,
    traffic: Traffic,
    fabric: Fabric,
    priors: Mapping[str, Prior] | None = None,
) -> ScalingModel:
    """Scaling of one workload under one parallelism, from the counts that were measured (there may be none).

    Args:
        points: measured steps on two or more workers.
        parallelism: DDP or FSDP2.
        traffic: of one synchronisation.
        fabric: links of the machines that the points were measured on.
        priors: of the constants; `scaling_priors` unless given.
    """
    believed = dict(priors or scaling_priors(parallelism, traffic, fabric))
    if not points:
        fit = unmeasured(believed)
    else:
        measured = np.array([one.step_s for one in points])

        def predict(constants: Mapping[str, float]) -> Vector:
            return np.array(
                [_step_s(one.work, parallelism, traffic, one.group, fabric, constants) for one in points]
            )

        fit = fit_constants(believed, predict, measured, noise_fraction=POINT_NOISE_FRACTION)
    return ScalingModel(parallelism=parallelism, traffic=traffic, fabric=fabric, fit=fit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingModel:
    """Step time by count; made by `fit_scaling`."""

    parallelism: Parallelism
    traffic: Traffic
    fabric: Fabric
    fit: Fit

    def step_s(self, work: WorkerStep, group: Group, fabric: Fabric | None = None) -> float:
        """Seconds per optimizer step of ``group``, over ``fabric`` where it is not the measured one."""
        return _step_s(work, self.parallelism, self.traffic, group, fabric or self.fabric, self.fit.constants)

    def synchronisation_s(self, group: Group, fabric: Fabric | None = None) -> float:
        """Seconds of one synchronisation with nothing hidden: per step (DDP) or micro batch (FSDP2)."""
        return _synchronisation_s(
            self.parallelism, self.traffic, group, fabric or self.fabric, self.fit.constants
        )

    def log_spread(self, work: WorkerStep, group: Group, fabric: Fabric | None = None) -> float:
        """Standard deviation of log(step) from the uncertain links, overlap and stragglers."""
        at = fabric or self.fabric
        return self.fit.log_spread(
            lambda constants: _step_s(work, self.parallelism, self.traffic, group, at, constants)
        )

    def micro_batch_s(self, step_s: float, work: WorkerStep, group: Group) -> float:
        """What one worker's micro batch takes, from a step measured on ``group``: `step_s` inverted.

        ``work.micro_batch_s`` is ignored. At least a hundredth of the time per micro batch: a step that is
        all traffic says nothing about compute.
        """
        low, high = 0.0, step_s / work.accumulation
        for _ in range(50):
            middle = 0.5 * (low + high)
            trial = WorkerStep(
                micro_batch_s=middle, accumulation=work.accumulation, per_step_s=work.per_step_s
            )
            low, high = (low, middle) if self.step_s(trial, group) > step_s else (middle, high)
        return max(high, 0.01 * step_s / work.accumulation)


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
    if group.rank_count <= 1 or parallelism is Parallelism.SINGLE:
        return 0.0
    gradients = traffic.gradient_bytes
    if gradients is None:
        gradients = float(DDP_BUCKET_BYTES)  # any figure: the slowdowns absorb it once two counts are known
    slowed = _slowed(fabric, group, constants)
    count = traffic.message_count
    if parallelism is Parallelism.DDP:
        return count * collective_s(Collective.ALL_REDUCE, gradients / count, group, slowed)
    scatter_s = collective_s(Collective.REDUCE_SCATTER, gradients / count, group, slowed)
    gather_s = collective_s(Collective.ALL_GATHER, traffic.parameter_bytes / count, group, slowed)
    return count * (scatter_s + traffic.gather_count * gather_s)


def _slowed(fabric: Fabric, group: Group, constants: Mapping[str, float]) -> Fabric:
    """The fabric at the rates that the constants say, with its shared bus when it has one."""
    crowd = 1.0
    if fabric.intra.transport in (Transport.PCIE, Transport.HOST) and group.ranks_per_node > 1:
        crowd = (group.ranks_per_node / 2.0) ** _SHARED_BUS
    return fabric.at_rates(
        intra=1.0 / (constants["intra_slowdown"] * crowd), inter=1.0 / constants["inter_slowdown"]
    )
