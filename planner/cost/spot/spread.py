"""How the time of an interrupted run is spread, not only its mean.

The time beyond the undisturbed run is a sum over interruptions, each of what it lost, the restart with its
own retries, and the wait for capacity (taken as exponential). In a segment their number is geometric (in
general negative binomial, see segments.py), so the characteristic function of the whole is a
product of powers, which a fast Fourier transform turns into the distribution on a grid. Nothing is simulated
and nothing taken as normal: a short run has a fair chance of no interruption at all, and that shows.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.cost.spot.job import SpotJob
from planner.cost.spot.segments import Segments, segments_of

BIN_COUNT = 4096
_DEVIATIONS = 12  # of the standard deviation that the grid reaches beyond the mean

TINY = 1e-7
_ROUNDING_ERROR = 1e-9

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
    return spread_of(((1.0, replace(job, wait_s=0.0)),), interval_s)


def wall_spread(job: SpotJob, interval_s: float) -> Spread:
    """Of the time from the first request to the end, waiting included."""
    return spread_of(((1.0, job),), interval_s)


def spread_of(
    cases: Sequence[tuple[float, SpotJob]], interval_s: float, bin_count: int = BIN_COUNT
) -> Spread:
    """Of the time from the first request to the end, of several cases whose weights add up to 1.

    Cases differ in work and wait; an interval longer than the work saves once, at the end.
    """
    segments = [segments_of(one, min(interval_s, one.work_s)) for _, one in cases]
    bases_s = [
        one.restart.first_s + math.fsum(part.count * part.length_s for part in parts)
        for (_, one), parts in zip(cases, segments, strict=True)
    ]
    base_s = min(bases_s)
    reach_s = max(
        case_base_s - base_s + _reach_s(one, parts)
        for (_, one), parts, case_base_s in zip(cases, segments, bases_s, strict=True)
    )
    if reach_s == 0:
        return Spread(base_s=base_s, bin_s=1.0, cumulative=(1.0,))
    grid = _Grid(reach_s / (bin_count - 2), bin_count)  # two more, or what lies at the end comes round
    whole = sum(
        weight * grid.exactly(case_base_s - base_s) * _beyond_base(one, parts, grid)
        for (weight, one), parts, case_base_s in zip(cases, segments, bases_s, strict=True)
    )
    density = np.clip(np.fft.irfft(whole, bin_count), 0.0, None)
    cumulative = tuple(np.minimum(np.cumsum(density), 1.0).tolist())
    return Spread(base_s=base_s, bin_s=grid.bin_s, cumulative=cumulative)


def quantile_s(spread: Spread, probability: float) -> float:
    """The least time, to a bin, that is not exceeded with ``probability``."""
    index = bisect_left(spread.cumulative, probability - _ROUNDING_ERROR)
    return spread.base_s + spread.bin_s * min(index, len(spread.cumulative) - 1)


def _beyond_base(job: SpotJob, segments: tuple[Segments, ...], grid: _Grid) -> _Complex:
    """The transform of the time that interruptions add to the undisturbed run."""
    rate = job.interruptions_per_s
    if rate == 0:
        return grid.exactly(0.0)
    wait, total_s, first_s = grid.waiting(job.wait_s), job.restart.total_s, job.restart.first_s
    retry = wait * grid.interrupted(rate, total_s)
    restart = wait * grid.exactly(total_s) * _survives(rate, total_s)
    restart = restart / (1 - retry * (1 - _survives(rate, total_s)))
    first = wait * grid.interrupted(rate, first_s)
    whole = _survives(rate, first_s) / (1 - first * (1 - _survives(rate, first_s)))
    for segment in segments:
        whole = whole * _segment(job, segment, grid, restart) ** segment.count
    return np.asarray(whole)


class _Grid:
    """Transforms of elementary times on the grid; each keeps its mean, and is computed once."""

    def __init__(self, bin_s: float, bin_count: int) -> None:
        self.bin_s = bin_s
        self._bin_count = bin_count
        self._known: dict[tuple[str, float, float], _Complex] = {}

    def exactly(self, time_s: float) -> _Complex:
        """A constant, shared by the two bins beside it."""
        return self._once("exactly", time_s, 0.0, lambda: self._exactly(time_s))

    def interrupted(self, rate_per_s: float, length_s: float) -> _Complex:
        """How long an attempt of ``length_s`` had run when it was interrupted."""
        return self._once(
            "interrupted", rate_per_s, length_s, lambda: self._interrupted(rate_per_s, length_s)
        )

    def waiting(self, mean_s: float) -> _Complex:
        """An exponential time with a mean of ``mean_s`` seconds, as the transform of its distribution."""
        return self._once("waiting", mean_s, 0.0, lambda: self._waiting(mean_s))

    def _once(self, name: str, first: float, second: float, make: Callable[[], _Complex]) -> _Complex:
        key = name, first, second
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _exactly(self, time_s: float) -> _Complex:
        weights = np.zeros(self._bin_count)
        index, rest = divmod(time_s / self.bin_s, 1.0)
        weights[int(index) % self._bin_count] += 1 - rest
        weights[(int(index) + 1) % self._bin_count] += rest
        return np.asarray(np.fft.rfft(weights))

    def _interrupted(self, rate_per_s: float, length_s: float) -> _Complex:
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

    def _waiting(self, mean_s: float) -> _Complex:
        if mean_s < TINY:
            return self.exactly(0.0)
        times = self._times()
        return self._of(times + mean_s * np.expm1(-times / mean_s))

    def _times(self) -> _Floats:
        return np.asarray(np.arange(self._bin_count + 1) * self.bin_s, dtype=np.float64)

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


def _reach_s(job: SpotJob, segments: tuple[Segments, ...]) -> float:
    """Time beyond the undisturbed run that the grid has to cover: the mean and many deviations."""
    rate = job.interruptions_per_s
    if rate == 0:
        return 0.0
    restart_s = job.restart.total_s * math.exp(rate * job.restart.total_s)
    waits_s = job.wait_s * math.exp(rate * job.restart.total_s)
    mean_s, variance = job.restart.total_s, (restart_s + waits_s) ** 2
    for segment in segments:
        each_s = segment.lost_s + restart_s + waits_s
        spread = 1 + segment.interruption_count * (1 - job.notice_saved_fraction)
        mean_s += segment.count * segment.interruption_count * each_s
        # second moments of the parts are at most twice the square of their means, as of an exponential
        variance += segment.count * segment.interruption_count * each_s**2 * (1 + spread)
    longest_s = max(segment.length_s for segment in segments)
    reach_s = mean_s + _DEVIATIONS * math.sqrt(variance) + 2 * (longest_s + waits_s + restart_s)
    return max(reach_s, 1e-3 * job.work_s)
