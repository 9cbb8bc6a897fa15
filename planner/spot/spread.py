"""How the time of an interrupted run is spread, not only its mean.

The time beyond the undisturbed run is a sum over interruptions, each of what it lost, the restart with its
own retries, and the wait for capacity (taken as exponential). In a segment their number is geometric (in
general negative binomial, see planner/spot/segments.py), so the characteristic function of the whole is a
product of powers, which a fast Fourier transform turns into the distribution on a grid. Nothing is simulated
and nothing taken as normal: a short run has a fair chance of no interruption at all, and that shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.spot.job import SpotJob
from planner.spot.segments import Segments, means, segments_of

BIN_COUNT = 4096
_DEVIATIONS = 12  # of the standard deviation that the grid reaches beyond the mean

TINY = 1e-7

_Floats = NDArray[np.float64]
_Complex = NDArray[np.complex128]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Distribution of a time: ``base_s`` at least, and beyond it ``cumulative`` on a grid of ``bin_s``."""

    base_s: float
    bin_s: float
    cumulative: tuple[float, ...]

    def at_most(self, time_s: float) -> float:
        """Probability that it takes ``time_s`` or less."""
        place = (time_s - self.base_s) / self.bin_s + 1e-9
        if place < 0:
            return 0.0
        return self.cumulative[min(int(place), len(self.cumulative) - 1)]


def held_spread(job: SpotJob, interval_s: float) -> Spread:
    """Of the time that instances are held, which is what is billed."""
    return _spread(job, interval_s, wait_s=0.0)


def wall_spread(job: SpotJob, interval_s: float) -> Spread:
    """Of the time from the first request to the end, waiting included."""
    return _spread(job, interval_s, wait_s=job.wait_s)


def at_most(spreads: tuple[tuple[float, Spread], ...], time_s: float) -> float:
    """The same for several cases of given weights that add up to 1."""
    return math.fsum(weight * one.at_most(time_s) for weight, one in spreads)


def quantile_s(spreads: tuple[tuple[float, Spread], ...], probability: float) -> float:
    """The least time, to a bin, that is not exceeded with ``probability``."""
    low_s = min(one.base_s for _, one in spreads)
    high_s = max(one.base_s + one.bin_s * len(one.cumulative) for _, one in spreads)
    if at_most(spreads, low_s) >= probability:
        return low_s
    bin_s = min(one.bin_s for _, one in spreads)
    while high_s - low_s > bin_s / 4:
        middle_s = (low_s + high_s) / 2
        if at_most(spreads, middle_s) >= probability:
            high_s = middle_s
        else:
            low_s = middle_s
    return high_s


def _spread(job: SpotJob, interval_s: float, wait_s: float) -> Spread:
    segments = segments_of(job, interval_s)
    base_s = job.restart.first_s + math.fsum(one.count * one.length_s for one in segments)
    if job.interruptions_per_s == 0:
        return Spread(base_s=base_s, bin_s=1.0, cumulative=(1.0,))
    bin_s = _reach_s(job, interval_s, segments, wait_s) / BIN_COUNT
    grid = _Grid(bin_s=bin_s)
    rate = job.interruptions_per_s
    wait = grid.waiting(wait_s)
    retry = wait * grid.interrupted(rate, job.restart.total_s)
    restart = wait * grid.exactly(job.restart.total_s) * _survives(rate, job.restart.total_s)
    restart /= 1 - retry * (1 - _survives(rate, job.restart.total_s))
    first = wait * grid.interrupted(rate, job.restart.first_s)
    whole = _survives(rate, job.restart.first_s) / (1 - first * (1 - _survives(rate, job.restart.first_s)))
    for one in segments:
        whole = whole * _segment(job, one, grid, restart) ** one.count
    density = np.clip(np.fft.irfft(whole, BIN_COUNT), 0.0, None)
    return Spread(base_s=base_s, bin_s=bin_s, cumulative=tuple(np.minimum(np.cumsum(density), 1.0).tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Transforms of elementary times on the grid; each keeps its mean."""

    bin_s: float

    def exactly(self, time_s: float) -> _Complex:
        """A constant, shared by the two bins beside it."""
        weights = np.zeros(BIN_COUNT)
        index, rest = divmod(time_s / self.bin_s, 1.0)
        weights[int(index) % BIN_COUNT] += 1 - rest
        weights[(int(index) + 1) % BIN_COUNT] += rest
        return np.asarray(np.fft.rfft(weights))

    def interrupted(self, rate_per_s: float, length_s: float) -> _Complex:
        """How long an attempt of ``length_s`` had run when it was interrupted."""
        if length_s < TINY:
            return self.exactly(0.0)
        times = self._times()
        within = np.minimum(times, length_s)
        if rate_per_s * length_s < TINY:  # as good as uniform
            integral = within**2 / (2 * length_s)
        else:
            share = math.expm1(-rate_per_s * length_s)
            integral = (-np.expm1(-rate_per_s * within) / rate_per_s - within) / share
        return self._of(integral + (times - within))

    def waiting(self, mean_s: float) -> _Complex:
        """An exponential time."""
        if mean_s < TINY:
            return self.exactly(0.0)
        times = self._times()
        return self._of(times + mean_s * np.expm1(-times / mean_s))

    def _times(self) -> _Floats:
        return np.asarray(np.arange(BIN_COUNT + 1) * self.bin_s, dtype=np.float64)

    def _of(self, integral: _Floats) -> _Complex:
        """From the integral of a cumulative distribution: each bin's share, split so that the mean stays."""
        padded = np.concatenate(([0.0], integral))
        return np.asarray(np.fft.rfft(np.diff(padded, n=2) / self.bin_s))


def _segment(job: SpotJob, one: Segments, grid: _Grid, restart: _Complex) -> _Complex:
    """The transform of the time that interruptions add to one segment."""
    saved = job.notice_saved_fraction
    losing_rate = job.interruptions_per_s * (1 - saved)
    lost = grid.interrupted(losing_rate, one.length_s)
    lost = lost * grid.exactly(job.saving.durable_s - job.saving.stall_s)
    each = restart * (saved * grid.exactly(job.saving.durable_s) + (1 - saved) * lost)
    if saved == 1:
        return np.asarray(np.exp(one.interruption_count * (each - 1)))
    survives = _survives(losing_rate, one.length_s)
    return np.asarray((survives / (1 - (1 - survives) * each)) ** (1 / (1 - saved)))


def _survives(rate_per_s: float, length_s: float) -> float:
    return math.exp(-rate_per_s * length_s)


def _reach_s(job: SpotJob, interval_s: float, segments: tuple[Segments, ...], wait_s: float) -> float:
    """Time beyond the undisturbed run that the grid has to cover: the mean and many deviations."""
    mean = means(job, interval_s)
    rate = job.interruptions_per_s
    restart_s = job.restart.total_s * math.exp(rate * job.restart.total_s)
    waits_s = wait_s * math.exp(rate * job.restart.total_s)
    mean_s, variance = job.restart.total_s, (restart_s + waits_s) ** 2
    for one in segments:
        each_s = one.lost_s + restart_s + waits_s
        spread = 1 + one.interruption_count * (1 - job.notice_saved_fraction)
        mean_s += one.count * one.interruption_count * each_s
        # second moments of the parts are at most twice the square of their means, as of an exponential
        variance += one.count * one.interruption_count * each_s**2 * (1 + spread)
    longest_s = max(one.length_s for one in segments)
    reach_s = mean_s + _DEVIATIONS * math.sqrt(variance) + 2 * (longest_s + waits_s + restart_s)
    return max(reach_s, 1e-3 * mean.work_s)
