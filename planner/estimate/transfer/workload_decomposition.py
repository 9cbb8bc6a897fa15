"""What a workload's time is made of, inferred from where it was measured, to carry it to another chip.

A micro batch of m samples takes, on one chip under one precision,

    t = H + S (m C / F + m B / W + m C L)          without a trace
    t = (H^4 + (S G(m))^4)^(1/4)                   with one

H is what does not grow with the batch, taken for the host's and for launch latency, which no chip shortens; F
and W are the FLOP/s and bytes/s that the chip reaches (planner.estimate.time.chips), C / B is the workload's
intensity in FLOP per byte, L is a tensor-parallel rank's time on the link per FLOP
(planner.estimate.transfer.tensor; 0 for one rank), G is the traced time (planner.estimate.time.operations),
and S the scale that makes the formula meet the measurements.

H, C/B, S and the model's width, on which L depends, are unknown. A grid over them carries a weight for each
combination: a prior (host times of eager PyTorch, intensities of neural networks), times how well the
combination explains every measured batch size, precision and chip. A single point leaves the prior; two batch
sizes tell H; two precisions or chips tell the intensity. A prediction is the weighted median over the grid
of the *ratio* between target and source, applied to the source's own measured line, and its spread is the
grid's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.estimate.time.chips import Chip
from planner.estimate.time.operations import HALF_BYTES_FRACTION
from planner.estimate.time.traced import TracedStepTime
from planner.estimate.transfer.tensor import WIDTH, WIDTH_LOG_SPREAD, link_s_per_flop

Vector = NDArray[np.float64]

INTENSITY_FLOP_PER_BYTE = 35.0
"""Median, in fp32: batch-normalised convnets lie near 10, transformers between 30 and 60."""
INTENSITY_LOG_SPREAD = 0.7
HOST_S = {True: 0.025, False: 0.008}
"""Median host and latency time of a training (True) and an inference micro batch in eager PyTorch: some
2,500 and 800 operations of 10 us."""
HOST_LOG_SPREAD = 0.8
TRACED_HOST_LOG_SPREAD = 0.5  # of the traced number of launches times launch_s
TRACED_SCALE_LOG_SPREAD = 0.3  # of the traced GPU time, as against NeuSight's rows
POINT_LOG_NOISE = 0.10  # what the formula cannot explain of one measured point

_INTENSITY_COUNT, _HOST_COUNT, _WIDTH_COUNT, _SCALE_COUNT = 9, 11, 5, 31
_SCALE_LOG_DEPTH = 5.0  # how far below "all GPU" the scale is tried: the GPU idles 99% of the time
_KEPT_WEIGHT = 1e-4  # of the largest
_TRACED_SHARPNESS = 4.0


@dataclass(frozen=True, slots=True)
class MicroBatchTime:
    """A measured micro batch on one chip, synchronisation and optimizer taken away."""

    chip: Chip
    micro_batch_size: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """Time on target over time on source: the median, and its standard deviation in log."""

    median: float
    log_spread: float


@dataclass(frozen=True, slots=True)
class MicroBatchWork:
    """What a micro batch asks of a chip and its link, up to a scale, under every combination."""

    intensity: Vector  # FLOP per byte in fp32; without meaning where there is a trace
    width: Vector  # of the model; without meaning for one rank
    tensor_count: int  # ranks that share each matrix
    traced: TracedStepTime | None

    def base_s(self, chip: Chip, micro_batch_size: float) -> Vector:
        """Computing, moving and exchanging, unscaled."""
        if self.traced is not None:
            return np.full_like(self.intensity, self.traced.gpu_s(chip, micro_batch_size))
        memory_s = _moved_fraction(chip) / chip.bytes_per_s
        free_s = self.intensity / chip.product_flop_per_s + memory_s
        limited_s = self.intensity / chip.sustained_flop_per_s + chip.stream_power_fraction * memory_s
        own_s: Vector = micro_batch_size * np.maximum(free_s, limited_s)
        return own_s if self.tensor_count == 1 else own_s + self.link_s(chip, micro_batch_size)

    def link_s(self, chip: Chip, micro_batch_size: float) -> Vector:
        """Exchanging alone; activations are halved as what moves through memory is."""
        per_flop_s = link_s_per_flop(chip, self.width, self.tensor_count)
        return micro_batch_size * _moved_fraction(chip) * self.intensity * per_flop_s


@dataclass(frozen=True, slots=True)
class WorkloadDecomposition:
    """Weighted combinations of what a workload may be made of; made by `decompose`."""

    weight: Vector  # sums to 1
    host_s: Vector
    scale: Vector
    work: MicroBatchWork

    @property
    def traced(self) -> TracedStepTime | None:
        """The workload's trace, where it stands for what the GPU does."""
        return self.work.traced

    def seconds(self, chip: Chip, micro_batch_size: float) -> Vector:
        """Of a micro batch under every combination."""
        return _joined(self.host_s, self.scale * self.work.base_s(chip, micro_batch_size), self.traced)

    def ratio(self, source: Chip, target: Chip, micro_batch_size: float) -> TimeRatio:
        """Of a micro batch's time on ``target`` to that on ``source``."""
        logs = np.log(self.seconds(target, micro_batch_size) / self.seconds(source, micro_batch_size))
        order = np.argsort(logs)
        middle = logs[order][np.searchsorted(np.cumsum(self.weight[order]), 0.5)]
        mean = float(self.weight @ logs)
        return TimeRatio(math.exp(middle), math.sqrt(max(0.0, float(self.weight @ (logs - mean) ** 2))))

    def host_share(self, chip: Chip, micro_batch_size: float) -> float:
        """Expected share of a micro batch's time on ``chip`` that a faster chip would not shorten."""
        return float(self.weight @ np.minimum(1.0, self.host_s / self.seconds(chip, micro_batch_size)))

    def link_share(self, chip: Chip, micro_batch_size: float) -> float:
        """Expected share of a micro batch's time on ``chip`` that tensor-parallel ranks wait for the link."""
        if self.work.tensor_count == 1:
            return 0.0
        waiting = self.scale * self.work.link_s(chip, micro_batch_size)
        return float(self.weight @ (waiting / self.seconds(chip, micro_batch_size)))

    def gpu_ratio(self, source: Chip, target: Chip, micro_batch_size: float) -> float:
        """Expected ratio of the GPU's part alone."""
        before = self.work.base_s(source, micro_batch_size)
        after = self.work.base_s(target, micro_batch_size)
        return math.exp(float(self.weight @ np.log(after / before)))


def decompose(
    points: Sequence[MicroBatchTime],
    traced: TracedStepTime | None = None,
    *,
    is_training: bool = True,
    tensor_count: int = 1,
) -> WorkloadDecomposition:
    """The mix of one workload under one technique from its measured points (at least one).

    Args:
        points: on any chips and precisions.
        traced: the workload's traces, where there are any.
        is_training: whether a micro batch has a backward pass.
        tensor_count: ranks that share each matrix; more than one without a trace only, which is of a whole
            model.
    """
    quantiles = [_normal_quantiles(count) for count in (_INTENSITY_COUNT, _HOST_COUNT)]
    width = np.full(1, WIDTH)
    if tensor_count > 1:
        width = WIDTH * np.exp(WIDTH_LOG_SPREAD * _normal_quantiles(_WIDTH_COUNT))
    if traced is None:
        intensity = INTENSITY_FLOP_PER_BYTE * np.exp(INTENSITY_LOG_SPREAD * quantiles[0])
        host = HOST_S[is_training] * np.exp(HOST_LOG_SPREAD * quantiles[1])
    else:
        intensity = np.ones(1)
        host = traced.host_s * np.exp(TRACED_HOST_LOG_SPREAD * quantiles[1])
    grid = [one.ravel() for one in np.meshgrid(intensity, host, width, indexing="ij")]
    work = MicroBatchWork(grid[0], grid[2], tensor_count, traced)
    base = np.stack([work.base_s(one.chip, one.micro_batch_size) for one in points])
    times = np.array([one.seconds for one in points])
    scale, log_prior = _scales(times, base, is_traced=traced is not None)
    modelled = _joined(grid[1][:, None], scale[None] * base[:, :, None], traced)
    misfit = np.log(times)[:, None, None] - np.log(modelled)
    score = log_prior - 0.5 * np.sum((misfit / POINT_LOG_NOISE) ** 2, axis=0)
    weight = np.exp(score - score.max())
    kept = weight > _KEPT_WEIGHT
    over_scale = [np.broadcast_to(one[:, None], scale.shape)[kept] for one in grid]
    return WorkloadDecomposition(
        weight=weight[kept] / weight[kept].sum(),
        host_s=over_scale[1],
        scale=scale[kept],
        work=MicroBatchWork(over_scale[0], over_scale[2], tensor_count, traced),
    )


def _scales(times: Vector, base: Vector, *, is_traced: bool) -> tuple[Vector, Vector]:
    """Scales to weigh at each point of the grid, and the logarithm of what is believed of each beforehand."""
    if is_traced:
        sigmas = np.linspace(-3.0, 3.0, _SCALE_COUNT)
        scale = np.broadcast_to(np.exp(TRACED_SCALE_LOG_SPREAD * sigmas), (base.shape[1], _SCALE_COUNT))
        return scale, np.broadcast_to(-0.5 * sigmas**2, scale.shape)
    largest = np.min(times[:, None] / base, axis=0) * 1.15  # as likely to be 1% as 100% of what they allow
    scale = largest[:, None] * np.exp(np.linspace(-_SCALE_LOG_DEPTH, 0.0, _SCALE_COUNT))[None, :]
    return scale, np.zeros_like(scale)


def _moved_fraction(chip: Chip) -> float:
    """Bytes that a micro batch moves, of those in fp32."""
    return HALF_BYTES_FRACTION if chip.is_half and chip.is_on_units else 1.0


def _joined(host_s: Vector, gpu_s: Vector, traced: TracedStepTime | None) -> Vector:
    """Without a trace H holds latencies too, which add up; a traced G has its own."""
    joined: Vector
    if traced is None:
        joined = host_s + gpu_s
    else:
        joined = (host_s**_TRACED_SHARPNESS + gpu_s**_TRACED_SHARPNESS) ** (1.0 / _TRACED_SHARPNESS)
    return joined


def _normal_quantiles(count: int) -> Vector:
    """The middles of ``count`` equally likely parts of a standard normal distribution."""
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(count) + 0.5) / count))
