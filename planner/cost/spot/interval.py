"""How often to save.

Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974:
``sqrt(2 d M)`` with ``d`` the time of a save and ``M`` the mean time between interruptions.

Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
Computer Systems 22(3), 2006: for ``d < 2 M``

    sqrt(2 d M) * (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d,    else M.

Intervals are of training time between the end of one save and the start of the next.
"""

from __future__ import annotations

import math

from planner.cost.spot.job import SpotJob

NEGLIGIBLE_LOSS_FRACTION = 0.01
"""Where a save stalls next to nothing no formula bounds the interval. At this share of the time between
interruptions half an interval lost each time costs half a percent; saving more often gains nothing."""

NEGLIGIBLE_LOSS_MAX_S = 3600.0
"""But where interruptions are rare an hour is enough, as on demand: machines and programs fail, too."""


def young_interval_s(stall_s: float, mean_time_between_s: float) -> float:
    """Young's first order estimate of the best interval."""
    return math.sqrt(2 * stall_s * mean_time_between_s)


def daly_interval_s(stall_s: float, mean_time_between_s: float) -> float:
    """Daly's higher order estimate of the best interval."""
    if math.isinf(mean_time_between_s):
        return mean_time_between_s
    if stall_s >= 2 * mean_time_between_s:
        return mean_time_between_s
    ratio = stall_s / (2 * mean_time_between_s)
    series = 1 + math.sqrt(ratio) / 3 + ratio / 9
    return young_interval_s(stall_s, mean_time_between_s) * series - stall_s


def best_interval_s(job: SpotJob) -> float:
    """Daly's interval for ``job``: at most all of its work, at least what a save takes.

    Only interruptions that lose work count: those whose notice was used for a save do not.
    """
    losses_per_s = job.interruptions_per_s * (1 - job.notice_saved_fraction)
    if losses_per_s <= 0:
        return job.work_s
    interval_s = daly_interval_s(job.saving.stall_s, 1 / losses_per_s)
    negligible_s = min(NEGLIGIBLE_LOSS_FRACTION / losses_per_s, NEGLIGIBLE_LOSS_MAX_S)
    shortest_s = max(negligible_s, job.saving.durable_s - job.saving.stall_s)
    return min(max(interval_s, shortest_s), job.work_s)
