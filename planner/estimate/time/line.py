"""The step times of one setting as a line: t_step = fixed + accumulation * (per_micro + per_sample * m).

``fixed`` is what a step pays once (optimizer, exposed gradient synchronisation), ``per_micro`` what a micro
batch pays whatever its size (launches, weights read), ``per_sample`` what grows with the micro batch size
m. All three are non-negative. With fewer points than terms, the unresolved directions take a prior: the
optimizer's share from the measured phases, and a step that is mostly proportional to m.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np
from numpy.typing import NDArray

from trials.api import Measurement

Vector = NDArray[np.float64]

_PRIOR_FIXED_SHARE = 0.05  # of a step, for the optimizer, where the phases were not measured
_PRIOR_PER_MICRO_SHARE = 0.10  # of a micro batch, for launches and weight traffic
_PRIOR_WEIGHT = 0.02  # a share that is off by 1 weighs as much as a misfit of 2%
_SIZE_LOG_SPREAD = {True: 0.30, False: 0.15}  # per e-fold beyond the measured sizes: one size (True), several
_COUNT_LOG_SPREAD = {True: 0.05, False: 0.01}  # the same of accumulation counts
_GAP_LOG_SPREAD = 0.06  # per e-fold to the nearest measured size
_FLOOR_LOG_SPREAD = 0.02


@dataclass(frozen=True, slots=True)
class StepTimeLine:
    """The fitted line of one setting, and how far its points lie from it."""

    fixed_s: float
    per_micro_s: float
    per_sample_s: float
    optimizer_s: float  # of fixed_s, what is no synchronisation
    micro_batch_sizes: tuple[int, ...]  # measured, ascending, distinct
    accumulations: tuple[int, ...]
    log_residuals: tuple[float, ...]  # median log(measured / line) of each measured size
    misfit: float  # root mean square of log(measured / line) about those medians
    half_width: float  # median half width of the points, as a fraction

    def step_time_s(self, micro_batch_size: float, accumulation: float) -> float:
        """Seconds per optimizer step on the line."""
        line_s = self.fixed_s + accumulation * (self.per_micro_s + self.per_sample_s * micro_batch_size)
        return line_s * self._bend(micro_batch_size)

    def micro_batch_s(self, micro_batch_size: float) -> float:
        """Seconds per micro batch on the line."""
        line_s = self.per_micro_s + self.per_sample_s * micro_batch_size
        return line_s * self._bend(micro_batch_size)

    def _bend(self, micro_batch_size: float) -> float:
        """The line runs through what was measured, and between sizes in the log of the size."""
        if len(self.log_residuals) == 1:
            return math.exp(self.log_residuals[0])
        sizes, residuals = self.micro_batch_sizes, self.log_residuals
        index = bisect_left(sizes, micro_batch_size)
        if index in (0, len(sizes)):
            return math.exp(residuals[min(index, len(sizes) - 1)])
        reach = math.log(sizes[index] / sizes[index - 1])
        share = math.log(micro_batch_size / sizes[index - 1]) / reach
        return math.exp(residuals[index - 1] + share * (residuals[index] - residuals[index - 1]))

    def distance(self, micro_batch_size: int) -> float:
        """How far outside the measured micro batch sizes: |log| of the ratio; 0 between them."""
        low, high = self.micro_batch_sizes[0], self.micro_batch_sizes[-1]
        if micro_batch_size < low:
            return math.log(low / micro_batch_size)
        return max(0.0, math.log(micro_batch_size / high))

    def gap(self, micro_batch_size: int) -> float:
        """How far the nearest measured micro batch size is: |log| of the ratio."""
        return min(abs(math.log(micro_batch_size / one)) for one in self.micro_batch_sizes)

    @property
    def log_noise(self) -> float:
        """Standard deviation, in log time, of the measurement itself."""
        return self.half_width / 2.0

    def log_spread(self, micro_batch_size: int, accumulation: int) -> float:
        """Standard deviation, in log time, that the line deserves at this batch, noise apart."""
        return math.hypot(self.size_log_spread(micro_batch_size), self.count_log_spread(accumulation))

    def size_log_spread(self, micro_batch_size: int) -> float:
        """Of it, what is due to the micro batch size, and to the line itself."""
        size = _SIZE_LOG_SPREAD[len(self.micro_batch_sizes) == 1] * self.distance(micro_batch_size)
        gap = _GAP_LOG_SPREAD * self.gap(micro_batch_size)
        return math.hypot(_FLOOR_LOG_SPREAD, self.misfit, size, gap)

    def count_log_spread(self, accumulation: int) -> float:
        """Of it, what is due to the number of micro batches."""
        nearest = min(abs(math.log(accumulation / one)) for one in self.accumulations)
        return _COUNT_LOG_SPREAD[len(self.accumulations) == 1] * min(nearest, 2.0)


def fit_line(measurements: Sequence[Measurement], expected_optimizer_s: float | None = None) -> StepTimeLine:
    """The line through measurements of one setting (at least one)."""
    points = [
        (one.config.micro_batch_size, series.accumulation, series.step_s)
        for one in measurements
        for series in one.series
    ]
    sizes, counts, times = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    optimizer_s = _optimizer_s(measurements, float(times.min()), expected_optimizer_s)
    fixed_share = min(0.9, optimizer_s / float(np.median(times)))
    rows = np.stack([np.ones_like(sizes), counts, counts * sizes], axis=1) / times[:, None]
    scale = rows.mean(axis=0)  # share of each term at the mean point, per unit of the term
    micro_share = (1.0 - fixed_share) * _PRIOR_PER_MICRO_SHARE
    prior = np.array([fixed_share, micro_share, 1.0 - fixed_share - micro_share])
    found = _least_squares(rows / scale, prior)
    fixed_s, per_micro_s, per_sample_s = (float(one) for one in found / scale)
    if len(set(counts)) == 1 and fixed_s > optimizer_s:  # one count cannot tell the two apart
        per_micro_s += (fixed_s - optimizer_s) / float(counts[0])
        fixed_s = optimizer_s
    logs = np.log(times / (fixed_s + counts * (per_micro_s + per_sample_s * sizes)))
    distinct = np.unique(sizes)
    medians = np.array([np.median(logs[sizes == one]) for one in distinct])
    return StepTimeLine(
        fixed_s=fixed_s,
        per_micro_s=per_micro_s,
        per_sample_s=per_sample_s,
        optimizer_s=min(fixed_s, optimizer_s),
        micro_batch_sizes=tuple(int(one) for one in distinct),
        accumulations=tuple(sorted({int(one) for one in counts})),
        log_residuals=tuple(float(one) for one in medians),
        misfit=float(np.sqrt(np.mean((logs - medians[np.searchsorted(distinct, sizes)]) ** 2))),
        half_width=float(np.median([one.half_width_fraction for one in measurements])),
    )


def _optimizer_s(measurements: Sequence[Measurement], shortest_s: float, expected_s: float | None) -> float:
    """Measured, where the phases were; else as the trace expects it, or the usual share of a step."""
    phases = [one.phases.optimizer_s for one in measurements if one.phases is not None]
    if phases:
        return median(phases)
    return _PRIOR_FIXED_SHARE * shortest_s if expected_s is None else min(expected_s, 0.5 * shortest_s)


def _least_squares(rows: Vector, prior: Vector) -> Vector:
    """Non-negative x minimising |rows x - 1|^2 + weight^2 |x - prior|^2, by trying every active set."""
    count = rows.shape[1]
    matrix = np.vstack([rows, _PRIOR_WEIGHT * np.eye(count)])
    target = np.concatenate([np.ones(rows.shape[0]), _PRIOR_WEIGHT * prior])
    best, best_cost = prior, math.inf
    for active in _subsets(count):
        part, *_ = np.linalg.lstsq(matrix[:, active], target, rcond=None)
        if (part < 0).any():
            continue
        candidate = np.zeros(count)
        candidate[list(active)] = part
        cost = float(np.sum((matrix @ candidate - target) ** 2))
        if cost < best_cost:
            best, best_cost = candidate, cost
    return best


def _subsets(count: int) -> Iterable[tuple[int, ...]]:
    for size in range(count, 0, -1):
        yield from combinations(range(count), size)
