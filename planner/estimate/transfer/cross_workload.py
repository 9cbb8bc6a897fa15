"""What other workloads, measured on two chips, say about the way from one chip to the other.

Two corrections are learned for each pair of chips and added to the ratio that `workload_decomposition`
predicts: one of the host's share of a step (machines have hosts of their own) and one of the GPU's (clocks,
drivers, kernels tuned for one chip). Both are believed to be small, and each workload speaks once, the louder
the more its step resembles the one asked about.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

HOST_PRIOR_LOG_SPREAD = 0.5  # hosts of different machines
GPU_PRIOR_LOG_SPREAD = 0.15  # of the GPU's share
NOISE_LOG_SPREAD = 0.2  # of one workload's ratio about the corrected prediction
OTHER_KIND_WEIGHT = 0.1  # of a workload in another precision or mode
LIKENESS_LOG_SCALE = 1.0  # step times this far apart (e-folds) weigh 1/e

_HOST, _GPU = (
    one.ravel() for one in np.meshgrid(np.linspace(-1.2, 1.2, 25), np.linspace(-1.0, 1.0, 25), indexing="ij")
)
_LOG_PRIOR = -0.5 * ((_HOST / HOST_PRIOR_LOG_SPREAD) ** 2 + (_GPU / GPU_PRIOR_LOG_SPREAD) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRatio:
    """A workload's time on one chip over that on another, as `workload_decomposition` predicts it."""

    workload: str
    kind: str  # precision and mode: what makes workloads comparable
    source_s: float  # measured micro batch time on the source
    log_ratio: float  # predicted
    host_share: float  # of the source's time
    gpu_ratio: float  # of the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossWorkloadRatio:
    """A predicted ratio whose truth was measured."""

    predicted: PredictedRatio
    true_log_ratio: float


@dataclass(frozen=True, slots=True)
class CrossWorkloadRatios:
    """All that is known about one pair of chips, ready to be asked; made by `fit_cross_workload`."""

    workloads: NDArray[np.str_]
    kinds: NDArray[np.str_]
    log_source_s: Vector
    shares: Vector  # one over the number of ratios of the same workload and kind
    losses: Vector  # of every ratio (rows) under every pair of corrections (columns)

    def corrected(self, predicted: PredictedRatio) -> float:
        """The log ratio of ``predicted`` as the other workloads correct it; its own is left out."""
        likeness = np.exp(-np.abs(self.log_source_s - math.log(predicted.source_s)) / LIKENESS_LOG_SCALE)
        alike = np.where(self.kinds == predicted.kind, 1.0, OTHER_KIND_WEIGHT)
        weights = likeness * alike * self.shares * (self.workloads != predicted.workload)
        score = _LOG_PRIOR - weights @ self.losses
        belief = np.exp(score - score.max())
        belief /= belief.sum()
        return float(_moved(predicted, np.array([belief @ _HOST]), np.array([belief @ _GPU]))[0])


def fit_cross_workload(ratios: Sequence[CrossWorkloadRatio]) -> CrossWorkloadRatios:
    """Corrections from the measured ratios of one pair of chips (at least one)."""
    counts = Counter((one.predicted.workload, one.predicted.kind) for one in ratios)
    return CrossWorkloadRatios(
        workloads=np.array([one.predicted.workload for one in ratios]),
        kinds=np.array([one.predicted.kind for one in ratios]),
        log_source_s=np.log([one.predicted.source_s for one in ratios]),
        shares=np.array([1.0 / counts[one.predicted.workload, one.predicted.kind] for one in ratios]),
        losses=np.stack([_loss(one.true_log_ratio - _moved(one.predicted, _HOST, _GPU)) for one in ratios]),
    )


def _moved(predicted: PredictedRatio, host: Vector, gpu: Vector) -> Vector:
    """The predicted log ratio under corrections of the host's and the GPU's share."""
    hosts, gpus = predicted.host_share, (1.0 - predicted.host_share) * predicted.gpu_ratio
    moved: Vector = predicted.log_ratio + np.log((hosts * np.exp(host) + gpus * np.exp(gpu)) / (hosts + gpus))
    return moved


def _loss(error: Vector) -> Vector:
    """Huber's: outliers count linearly."""
    size = np.abs(error) / NOISE_LOG_SPREAD
    loss: Vector = np.where(size < 1.0, 0.5 * size**2, size - 0.5)
    return loss
