"""Can a measurement be trusted? Named thresholds and advice in words. Pure; imports no torch.

Each warning says what was seen, why it matters, what to do.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trials.step_times import half_width_fraction, outliers, step_s
from trials.trial import FOREIGN_CPU_FRACTION_MAX, Phases, Telemetry

OUTLIER_COST_MAX = 0.02  # of all time, spent in outliers that the step time leaves out
DRIFT_FRACTION_MAX = 0.05  # of the median, between the first and the last third of the steps
STEADY_FRACTION = 0.05  # warm-up ends when two successive windows' medians agree within this
STEADY_WINDOW = 3
_THIRDS = 3.0  # half-widths of the mean that the medians of two thirds may differ by: sqrt(2 * 3 * pi / 2)
INPUT_BOUND_FRACTION = 0.2  # of the step, spent waiting for data
SPLIT_FRACTION_MAX = 0.05  # by which the phases may miss the whole step


def has_warmed_up(times_s: Sequence[float]) -> bool:
    """Whether the last window of steps is as fast as the one before it. The first step is not to be given."""
    if len(times_s) < 2 * STEADY_WINDOW:
        return False
    now = statistics.median(times_s[-STEADY_WINDOW:])
    before = statistics.median(times_s[-2 * STEADY_WINDOW : -STEADY_WINDOW])
    return abs(now - before) <= STEADY_FRACTION * before


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
        f"unsteady: after {len(times_s)} steps the step time is known to ±{half_width:.1%}, not"
        f" ±{limit_fraction:.0%}; differences smaller than that mean nothing; close other programs or allow"
        " more steps"
    )


def _drift(times_s: Sequence[float]) -> str:
    drift = drift_fraction(times_s)
    if abs(drift) <= DRIFT_FRACTION_MAX or abs(drift) <= _THIRDS * half_width_fraction(times_s):
        return ""
    what = "slower" if drift > 0 else "faster"
    return (
        f"drift: steps became {abs(drift):.0%} {what} while they were timed, so a long run may differ from"
        " this; look for heat, a growing data structure or a late warm-up"
    )


def _outliers(times_s: Sequence[float]) -> str:
    usual_s = step_s(times_s)
    cost_fraction = statistics.fmean(times_s) / usual_s - 1
    if cost_fraction <= OUTLIER_COST_MAX:
        return ""
    return (
        f"outliers: {len(outliers(times_s))} of {len(times_s)} steps took up to {max(times_s) / usual_s:.1f}"
        f" times the others, which alone are counted; a real run with them takes {cost_fraction:.0%} longer;"
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
