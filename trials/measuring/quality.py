"""Can a measurement be trusted? Named thresholds and advice in words. Pure; imports no torch.

Each warning says what was seen, why it matters, what to do.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trials.measurement import FOREIGN_CPU_FRACTION_MAX, Phases, Telemetry
from trials.step_times import half_width_fraction, outliers, step_s

OUTLIER_COST_MAX = 0.02  # of all time, spent in outliers that the step time leaves out
DRIFT_FRACTION_MAX = 0.05  # of the median, between the first and the last third of the steps
STEADY_FRACTION = 0.05  # warm-up ends when two successive windows' medians agree within this
STEADY_WINDOW = 3
_THIRDS = 3.0  # half-widths of the mean that the medians of two thirds may differ by: sqrt(2 * 3 * pi / 2)
INPUT_BOUND_FRACTION = 0.2  # of the step, spent waiting for data
STRAGGLER_FRACTION_MAX = 0.1  # by which a rank's own work may take longer than the median rank's
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
    phases: Phases | None,
    disagreement_fraction: float = 0.0,
) -> tuple[str, ...]:
    """What is wrong with a series of step times and their phases, in words; empty if nothing is."""
    found = [_unsteady(times_s, limit_fraction), _drift(times_s), _outliers(times_s), _input_bound(phases)]
    found.append(_split(disagreement_fraction))
    return tuple(warning for warning in found if warning)


def warnings_of_ranks(
    telemetry: Sequence[Telemetry | None],
    foreign_cpu_fractions: Sequence[float | None],
    own_work_s: Sequence[float],
) -> tuple[str, ...]:
    """What is wrong with ranks and their hosts, in words that name them; empty if nothing is.

    Args:
        telemetry: of each rank's GPU; None without NVML.
        foreign_cpu_fractions: of each rank's host, the share of its cores that others used; None: unknown.
        own_work_s: of each rank, seconds of a micro batch without waiting for others; empty where unknown.
    """
    found = [_loaded(max((share for share in foreign_cpu_fractions if share is not None), default=0.0))]
    found += [_throttled(telemetry), _shared(telemetry), _straggler(own_work_s)]
    return tuple(warning for warning in found if warning)


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


def _input_bound(phases: Phases | None) -> str:
    if phases is None:
        return ""
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


def _loaded(foreign_cpu_fraction: float) -> str:
    if foreign_cpu_fraction <= FOREIGN_CPU_FRACTION_MAX:
        return ""
    return (
        f"loaded: other processes used {foreign_cpu_fraction:.0%} of the host's cores, so what the CPU does"
        " in a step may take too long; stop them and measure again"
    )


def _throttled(telemetry: Sequence[Telemetry | None]) -> str:
    ranks = [rank for rank, told in enumerate(telemetry) if told is not None and told.throttle_reasons]
    if not ranks:
        return ""
    reasons = dict.fromkeys(
        reason for told in telemetry if told is not None for reason in told.throttle_reasons
    )
    return (
        f"throttled: the GPU{_of(ranks, len(telemetry))} lowered its clock ({', '.join(reasons)}), so a"
        " cooler or less limited card of the same type is faster; check cooling and the power limit"
    )


def _shared(telemetry: Sequence[Telemetry | None]) -> str:
    ranks = [rank for rank, told in enumerate(telemetry) if told is not None and told.other_process_count]
    if not ranks:
        return ""
    count = sum(told.other_process_count for told in telemetry if told is not None)
    return (
        f"shared: {count} other process(es) ran on the GPU{_of(ranks, len(telemetry))}, so the times are too"
        " long; stop them and measure again"
    )


def _straggler(own_work_s: Sequence[float]) -> str:
    if len(own_work_s) < 2:  # noqa: PLR2004  (a rank alone waits for none)
        return ""
    slowest = max(range(len(own_work_s)), key=lambda rank: own_work_s[rank])
    excess = own_work_s[slowest] / statistics.median_low(own_work_s) - 1
    if excess <= STRAGGLER_FRACTION_MAX:
        return ""
    return (
        f"straggler: a micro batch takes rank {slowest} of {len(own_work_s)} {excess:.0%} longer than the"
        " median rank, and all wait for it; look at its GPU's clock, its link to the host and what else runs"
    )


def _of(ranks: Sequence[int], count: int) -> str:
    """The words " of rank 5 of 8"; nothing where there is one rank only."""
    if count == 1:
        return ""
    return f" of rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} of {count}"
