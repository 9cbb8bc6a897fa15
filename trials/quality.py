"""Can a measurement be trusted? Named thresholds and advice in words. Pure; imports no torch.

Each warning says what was seen, why it matters, what to do.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from trials.trial import Telemetry

CONFIDENCE = 0.95
# A step is an outlier from this modified z-score on: Iglewicz and Hoaglin (1993), "How to Detect and Handle
# Outliers", with hyperfine's threshold (ten times the scale of the median absolute deviation).
OUTLIER_SCORE = 14.826
_MAD_TO_SIGMA = 0.6745
OUTLIER_SHARE_MAX = 0.1  # of the steps
DRIFT_FRACTION_MAX = 0.05  # of the median, between the first and the last third of the steps
STEADY_FRACTION = 0.05  # warm-up ends when two successive windows' medians agree within this
STEADY_WINDOW = 3
INPUT_BOUND_FRACTION = 0.2  # of the step, spent waiting for data


def median_interval(times_s: Sequence[float]) -> tuple[float, float]:
    """A confidence interval of the median (95% or the little more that order statistics give).

    Distribution-free: the median lies between the k-th smallest and the k-th largest of n values with
    probability 1 - 2 P(Binomial(n, 1/2) < k) (David and Nagaraja, "Order Statistics", 3rd ed., 7.1). Steps are
    taken as independent; drift is warned of apart. Needs at least 6 values, below that it is the range.
    """
    ordered = sorted(times_s)
    count = len(ordered)
    k, tail, total = 1, 1.0, 2.0**count
    while 2 * (tail + math.comb(count, k)) / total <= 1 - CONFIDENCE and k < count // 2:
        tail += math.comb(count, k)
        k += 1
    return ordered[k - 1], ordered[count - k]


def half_width_fraction(times_s: Sequence[float]) -> float:
    """Half the width of the median's interval, as a share of the median."""
    low, high = median_interval(times_s)
    return (high - low) / 2 / statistics.median(times_s)


def has_warmed_up(times_s: Sequence[float]) -> bool:
    """Whether the last window of steps is as fast as the one before it. The first step is not to be given."""
    if len(times_s) < 2 * STEADY_WINDOW:
        return False
    now = statistics.median(times_s[-STEADY_WINDOW:])
    before = statistics.median(times_s[-2 * STEADY_WINDOW : -STEADY_WINDOW])
    return abs(now - before) <= STEADY_FRACTION * before


def outliers(times_s: Sequence[float]) -> tuple[int, ...]:
    """Indices of the steps that are far from the rest."""
    median = statistics.median(times_s)
    deviation = statistics.median(abs(one - median) for one in times_s)
    if deviation == 0:
        return ()
    scores = (_MAD_TO_SIGMA * abs(one - median) / deviation for one in times_s)
    return tuple(index for index, score in enumerate(scores) if score > OUTLIER_SCORE)


def drift_fraction(times_s: Sequence[float]) -> float:
    """How much slower the last third of the steps is than the first, as a share of the median."""
    third = max(len(times_s) // 3, 1)
    change_s = statistics.median(times_s[-third:]) - statistics.median(times_s[:third])
    return change_s / statistics.median(times_s)


def warnings_of(
    times_s: Sequence[float], *, limit_fraction: float, telemetry: Telemetry | None
) -> tuple[str, ...]:
    """What is wrong with a series of step times, in words; empty if nothing is."""
    found = [_unsteady(times_s, limit_fraction), _drift(times_s), _outliers(times_s)]
    if telemetry is not None:
        found += [_throttled(telemetry), _shared(telemetry)]
    return tuple(one for one in found if one)


def _unsteady(times_s: Sequence[float], limit_fraction: float) -> str:
    half_width = half_width_fraction(times_s)
    if half_width <= limit_fraction:
        return ""
    return (
        f"unsteady: after {len(times_s)} steps the median step time is known to ±{half_width:.1%}, not"
        f" ±{limit_fraction:.0%}; differences smaller than that mean nothing; close other programs or allow more steps"
    )


def _drift(times_s: Sequence[float]) -> str:
    drift = drift_fraction(times_s)
    if abs(drift) <= DRIFT_FRACTION_MAX or abs(drift) <= 2 * half_width_fraction(times_s):
        return ""
    what = "slower" if drift > 0 else "faster"
    return (
        f"drift: steps became {abs(drift):.0%} {what} while they were timed, so a long run may differ from this;"
        " look for heat, a growing data structure or a late warm-up"
    )


def _outliers(times_s: Sequence[float]) -> str:
    count = len(outliers(times_s))
    if count <= OUTLIER_SHARE_MAX * len(times_s):
        return ""
    slowest = max(times_s) / statistics.median(times_s)
    return (
        f"outliers: {count} of {len(times_s)} steps took up to {slowest:.1f} times the median, which the median"
        " leaves out and the real run pays for; look for data loading or other programs"
    )


def _throttled(telemetry: Telemetry) -> str:
    if not telemetry.throttle_reasons:
        return ""
    return (
        f"throttled: the GPU lowered its clock ({', '.join(telemetry.throttle_reasons)}), so a cooler or less"
        " limited card of the same type is faster; check cooling and the power limit"
    )


def _shared(telemetry: Telemetry) -> str:
    if telemetry.other_process_count == 0:
        return ""
    return (
        f"shared: {telemetry.other_process_count} other process(es) ran on the GPU, so the times are too long;"
        " stop them and measure again"
    )
