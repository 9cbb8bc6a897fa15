"""Can a measurement be trusted? Named thresholds and advice in words. Pure; imports no torch.

Each warning says what was seen, why it matters, what to do.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from trials.trial import FOREIGN_CPU_FRACTION_MAX, Phases, Telemetry

CONFIDENCE = 0.95
# A step is an outlier from this many robust standard deviations on: the modified z-score of Iglewicz and
# Hoaglin (1993), "How to Detect and Handle Outliers", with the threshold that hyperfine uses.
OUTLIER_SIGMAS = 10.0
MAD_TO_SIGMA = 1.4826  # median absolute deviation to standard deviation of a normal distribution
OUTLIER_COST_MAX = 0.02  # of all time, spent in outliers beyond the median
DRIFT_FRACTION_MAX = 0.05  # of the median, between the first and the last third of the steps
STEADY_FRACTION = 0.05  # warm-up ends when two successive windows' medians agree within this
STEADY_WINDOW = 3
INPUT_BOUND_FRACTION = 0.2  # of the step, spent waiting for data
SPLIT_FRACTION_MAX = 0.05  # by which the phases may miss the whole step


def median_interval(times_s: Sequence[float]) -> tuple[float, float]:
    """A confidence interval of the median (95% or the little more that order statistics give).

    Distribution-free: the median lies between the k-th smallest and the k-th largest of n values with
    probability 1 - 2 P(Binomial(n, 1/2) < k) (David and Nagaraja, "Order Statistics", 3rd ed., 7.1). Steps
    are taken as independent; drift is warned of apart. Below 6 values it is their range, and not 95%.
    """
    ordered = sorted(times_s)
    count = len(ordered)
    k, below = (
        1,
        1,
    )  # of the 2**count ways in which the values may fall about the median, those with less than k
    while 2 * (below + math.comb(count, k)) / 2**count <= 1 - CONFIDENCE and k < count // 2:
        below += math.comb(count, k)
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
    limit = OUTLIER_SIGMAS * MAD_TO_SIGMA * deviation
    return tuple(index for index, one in enumerate(times_s) if abs(one - median) > limit)


def drift_fraction(times_s: Sequence[float]) -> float:
    """How much slower the last third of the steps is than the first, as a share of the median."""
    third = max(len(times_s) // 3, 1)
    change_s = statistics.median(times_s[-third:]) - statistics.median(times_s[:third])
    return change_s / statistics.median(times_s)


def warnings_of(
    times_s: Sequence[float],
    *,
    limit_fraction: float,
    phases: Phases,
    telemetry: Telemetry | None,
    disagreement_fraction: float = 0.0,
    foreign_cpu_fraction: float | None = None,
) -> tuple[str, ...]:
    """What is wrong with a series of step times and their phases, in words; empty if nothing is."""
    found = [_unsteady(times_s, limit_fraction), _drift(times_s), _outliers(times_s), _input_bound(phases)]
    found += [_split(disagreement_fraction), _loaded(foreign_cpu_fraction)]
    if telemetry is not None:
        found += [_throttled(telemetry), _shared(telemetry)]
    return tuple(one for one in found if one)


def _unsteady(times_s: Sequence[float], limit_fraction: float) -> str:
    half_width = half_width_fraction(times_s)
    if half_width <= limit_fraction:
        return ""
    return (
        f"unsteady: after {len(times_s)} steps the median step time is known to ±{half_width:.1%}, not"
        f" ±{limit_fraction:.0%}; differences smaller than that mean nothing; close other programs or allow"
        " more steps"
    )


def _drift(times_s: Sequence[float]) -> str:
    drift = drift_fraction(times_s)
    if abs(drift) <= DRIFT_FRACTION_MAX or abs(drift) <= 2 * half_width_fraction(times_s):
        return ""
    what = "slower" if drift > 0 else "faster"
    return (
        f"drift: steps became {abs(drift):.0%} {what} while they were timed, so a long run may differ from"
        " this; look for heat, a growing data structure or a late warm-up"
    )


def _outliers(times_s: Sequence[float]) -> str:
    found = outliers(times_s)
    median = statistics.median(times_s)
    cost_fraction = math.fsum(times_s[index] - median for index in found) / math.fsum(times_s)
    if cost_fraction <= OUTLIER_COST_MAX:
        return ""
    return (
        f"outliers: {len(found)} of {len(times_s)} steps took up to {max(times_s) / median:.1f} times the"
        f" median; the median leaves them out, but a real run with them takes {cost_fraction:.0%} longer;"
        " look for data loading or other programs"
    )


def _input_bound(phases: Phases) -> str:
    share = phases.data_wait_s / phases.step_s
    if share <= INPUT_BOUND_FRACTION:
        return ""
    return (
        f"input-bound: {share:.0%} of the step waits for the next batch, which a faster GPU does not shorten;"
        " use loader workers or cheaper preprocessing"
    )


def _split(disagreement_fraction: float) -> str:
    if disagreement_fraction <= SPLIT_FRACTION_MAX:
        return ""
    return (
        f"split: the phases of a step are {disagreement_fraction:.0%} off the whole, so their shares are"
        " rough; the step time itself is not concerned"
    )


def _loaded(foreign_cpu_fraction: float | None) -> str:
    if foreign_cpu_fraction is None or foreign_cpu_fraction <= FOREIGN_CPU_FRACTION_MAX:
        return ""
    return (
        f"loaded: other processes used {foreign_cpu_fraction:.0%} of the host's cores, so what the CPU does"
        " in a step may take too long; stop them and measure again"
    )


def _throttled(telemetry: Telemetry) -> str:
    if not telemetry.throttle_reasons:
        return ""
    return (
        f"throttled: the GPU lowered its clock ({', '.join(telemetry.throttle_reasons)}), so a cooler or"
        " less limited card of the same type is faster; check cooling and the power limit"
    )


def _shared(telemetry: Telemetry) -> str:
    if telemetry.other_process_count == 0:
        return ""
    return (
        f"shared: {telemetry.other_process_count} other process(es) ran on the GPU, so the times are too"
        " long; stop them and measure again"
    )
