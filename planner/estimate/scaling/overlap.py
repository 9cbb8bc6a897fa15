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
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist

from planner.estimate.scaling.calibrate import Prior
from planner.estimate.scaling.collectives import Fabric, Transport
from planner.estimate.scaling.traffic import Waits, waits_of
from planner.modes import PARALLELISMS
from planner.modes.terms import Group, Traffic, WorkerStep

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
_OVERLAP_MAX = 10.0  # the longer of the two alone, but for a part in ten thousand
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


def scaling_priors(parallelism: str, traffic: Traffic, fabric: Fabric) -> dict[str, Prior]:
    """What is believed of the constants before several workers were measured."""
    mode = PARALLELISMS[parallelism]
    return {
        "traffic": _KNOWN_TRAFFIC if traffic.is_known else _UNKNOWN_TRAFFIC,
        "intra_slowdown": Prior(median=1.0, factor=LINK_FACTORS[fabric.intra.transport]),
        "inter_slowdown": Prior(median=1.0, factor=LINK_FACTORS[fabric.inter.transport]),
        "two_way": _TWO_WAY if fabric.inter.transport is Transport.TCP else Prior(median=1.0, factor=1.0),
        "overlap": Prior(median=mode.overlap, factor=mode.overlap_factor, low=1.0, high=_OVERLAP_MAX),
        "straggler": _STRAGGLER,
    }


@lru_cache(maxsize=1024)
def expected_maximum_normal(count: int) -> float:
    """Mean of the largest of ``count`` standard normals, by Blom's approximation; 0 for one."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0


def together_s(work: WorkerStep, waits: Waits, group: Group, constants: Mapping[str, float]) -> float:
    """Compute and waits overlapped, for the slowest worker of ``group``."""
    exponent = max(1.0, constants["overlap"])
    micro_s = _norm(work.micro_batch_s, waits.micro_batch_s, exponent)
    if waits.step_s > 0.0:
        compute_s = (work.accumulation - 1) * micro_s + _norm(micro_s, waits.step_s, exponent)
    else:
        compute_s = work.accumulation * micro_s
    straggling = 1.0 + constants["straggler"] * expected_maximum_normal(group.rank_count)
    return (compute_s + work.per_step_s) * straggling


def _norm(first: float, second: float, exponent: float) -> float:
    longer = max(first, second)
    if longer == 0.0:
        return 0.0
    return longer * float((1.0 + (min(first, second) / longer) ** exponent) ** (1.0 / exponent))


def waiting(traffic: Traffic, group: Group, fabric: Fabric, constants: Mapping[str, float]) -> Waits:
    """What ``group`` waits for ``traffic`` with nothing hidden."""
    if group.rank_count <= 1:
        return Waits()
    return waits_of(traffic, group, slowed(fabric, group, constants))


def slowed(fabric: Fabric, group: Group, constants: Mapping[str, float]) -> Fabric:
    """The fabric at the rates that the constants say; within a node every pair of workers has its lane."""
    pair = constants["two_way"] if group.node_count == 2 else 1.0  # noqa: PLR2004
    slowest = 1.0 + _LINK_SPREAD.get(fabric.inter.transport, 0.0) * expected_maximum_normal(group.node_count)
    volume = constants["traffic"]  # more bytes at a rate are the same bytes at a lower rate
    return fabric.at_rates(
        intra=1.0 / (constants["intra_slowdown"] * volume),
        inter=pair / (constants["inter_slowdown"] * slowest * volume),
    )
