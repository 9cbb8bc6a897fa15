"""Axes of the plots: from values to pixels, and where the ticks stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOG_FROM_RATIO = 8.0  # a wider range than this is unreadable on a linear axis
_HOURS_S = 3600.0
_NICE_TIMES_S = tuple(
    hours * _HOURS_S
    for hours in (
        1 / 60, 1 / 20, 1 / 6, 0.5, 1, 2, 5, 10, 24, 48, 120, 240, 720, 2160, 8760, 43800,
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelAxis:
    """A range of values on a range of pixels (which may run downwards)."""

    low: float
    high: float
    start_px: float
    end_px: float
    is_log: bool = False

    def px(self, value: float) -> float:
        """Where ``value`` stands, clipped to the axis."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start_px + share * (self.end_px - self.start_px)

    def has(self, value: float) -> bool:
        """Whether ``value`` lies on the axis."""
        return self.low <= value <= self.high


def positive_axis(values: Iterable[float], start_px: float, end_px: float) -> PixelAxis:
    """Around positive values: linear from zero, or logarithmic where they span much."""
    known = list(values)
    low, high = min(known), max(known)
    if high / low > LOG_FROM_RATIO:
        return PixelAxis(low=low / 1.25, high=high * 1.25, start_px=start_px, end_px=end_px, is_log=True)
    return PixelAxis(low=0.0, high=high * 1.1, start_px=start_px, end_px=end_px)


def log_axis(values: Sequence[float], start_px: float, end_px: float) -> PixelAxis:
    """Logarithmic around positive values, with room at the ends."""
    low, high = min(values), max(values)
    return PixelAxis(low=low / 1.3, high=high * 1.3, start_px=start_px, end_px=end_px, is_log=True)


def ticks(axis: PixelAxis, count: int = 5) -> tuple[float, ...]:
    """Round values on the axis, about so many."""
    if axis.is_log:
        return _thinned(_log_ticks(axis), count + 2)
    step = _nice_step((axis.high - axis.low) / count)
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return tuple(number * step for number in range(first, last + 1))


def time_ticks(axis: PixelAxis, count: int = 5) -> tuple[float, ...]:
    """Round seconds, minutes, hours or days on the axis."""
    if axis.is_log:
        return _thinned(tuple(one for one in _NICE_TIMES_S if axis.has(one)), count + 2)
    unit_s = max(one for one in (1.0, 60.0, _HOURS_S, 24 * _HOURS_S) if one <= axis.high / 2 or one == 1.0)
    step = _nice_step((axis.high - axis.low) / unit_s / count) * unit_s
    return tuple(number * step for number in range(math.floor(axis.high / step + 1e-9) + 1))


def _log_ticks(axis: PixelAxis) -> tuple[float, ...]:
    powers = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    all_ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return tuple(one for one in all_ticks if axis.has(one))


def _thinned(values: tuple[float, ...], count: int) -> tuple[float, ...]:
    step = math.ceil(len(values) / count)
    return values[::step] if step > 1 else values


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= rough * 0.999)
