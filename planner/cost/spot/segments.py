"""The means of an interrupted run, in closed form.

A run is cut into segments of one interval of work and one save. A segment that is interrupted loses what it
did and is tried again after a restart, which can be interrupted itself. With exponential times between
interruptions of rate ``l`` a segment of ``s`` seconds is interrupted ``exp(l s) - 1`` times on average before
it ends, and a restart of ``R`` takes ``(exp(l R) - 1) / l``. Together (Daly 2006, the complete cost function)

    held = sum over segments of (1 / l) exp(l R) (exp(l s) - 1)

plus the first start. Two things are ours. Where a share ``q`` of the interruptions saves on notice, the
others come at ``l (1 - q)``: then ``(exp(l (1 - q) s) - 1) / (1 - q)`` interruptions for a segment, of which
``q`` lose no work but one save. And where saving is asynchronous, what is lost reaches back to the checkpoint
before while the last one is not yet durable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.cost.spot.job import SpotJob

SMALL_EXPONENT = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """``count`` equal stretches of work, each with the save that ends it."""

    count: int
    length_s: float  # work and save
    interruption_count: float  # mean, of one of them until it ends
    lost_s: float  # mean work and saving lost by one interruption


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Mean seconds of a run by what they are spent on, and how often it is interrupted.

    ``held_s`` is what is billed for each instance; ``wall_s`` has the waiting for capacity in it.
    """

    work_s: float
    saving_s: float  # checkpoints that were planned
    lost_s: float  # done twice, or saved on notice
    starting_s: float  # the first start and all restarts
    waiting_s: float
    interruption_count: float

    @property
    def held_s(self) -> float:
        """Seconds during which instances are held and billed."""
        return self.work_s + self.saving_s + self.lost_s + self.starting_s

    @property
    def wall_s(self) -> float:
        """Seconds from the first request to the end, waits for capacity included."""
        return self.held_s + self.waiting_s


def segments_of(job: SpotJob, interval_s: float) -> tuple[Segments, ...]:
    """The full segments, and the shorter last one where the work is no multiple of the interval."""
    full_count = math.floor(job.work_s / interval_s + 1e-9)
    rest_s = max(0.0, job.work_s - full_count * interval_s)
    found: list[Segments] = []
    if full_count:
        found.append(_segments(job, full_count, interval_s))
    if rest_s > 1e-9 * job.work_s:
        found.append(_segments(job, 1, rest_s))
    return tuple(found)


def means(job: SpotJob, interval_s: float) -> Means:
    """What ``job`` takes on average when it saves every ``interval_s`` of work and at its end."""
    rate = job.interruptions_per_s
    segments = segments_of(job, interval_s)
    count = math.fsum(segment.count * segment.interruption_count for segment in segments)
    lost_s = math.fsum(segment.count * segment.interruption_count * segment.lost_s for segment in segments)
    restart_s = retried_s(rate, job.restart.total_s)
    first_s = retried_s(rate, job.restart.first_s)
    held_again = count * math.exp(rate * job.restart.total_s) + math.expm1(rate * job.restart.first_s)
    return Means(
        work_s=job.work_s,
        saving_s=sum(segment.count for segment in segments) * job.saving.stall_s,
        lost_s=lost_s,
        starting_s=first_s + count * restart_s,
        waiting_s=held_again * job.wait_s,
        interruption_count=held_again,
    )


def retried_s(rate_per_s: float, length_s: float) -> float:
    """Mean time to get through ``length_s`` where every interruption means to begin it again."""
    return math.expm1(rate_per_s * length_s) / rate_per_s if rate_per_s > 0 else length_s


def mean_until_interrupted_s(rate_per_s: float, length_s: float) -> float:
    """Mean time that an attempt of ``length_s`` had run when it was interrupted."""
    exponent = rate_per_s * length_s
    if exponent < SMALL_EXPONENT:  # the difference of two large terms below; the series has no such trouble
        return length_s * (0.5 - exponent / 12)
    return 1 / rate_per_s - length_s / math.expm1(exponent)


def _segments(job: SpotJob, count: int, work_s: float) -> Segments:
    length_s = work_s + job.saving.stall_s
    saved = job.notice_saved_fraction
    losing_rate = job.interruptions_per_s * (1 - saved)
    late_s = job.saving.durable_s - job.saving.stall_s
    unsaved_s = mean_until_interrupted_s(losing_rate, length_s) + late_s
    return Segments(
        count=count,
        length_s=length_s,
        interruption_count=interruptions_of(job, length_s),
        lost_s=saved * job.saving.durable_s + (1 - saved) * unsaved_s,
    )


def interruptions_of(job: SpotJob, length_s: float) -> float:
    """Mean number of interruptions of a segment until it ends, those of restarts not counted."""
    losing_fraction = 1 - job.notice_saved_fraction
    if losing_fraction == 0:
        return job.interruptions_per_s * length_s
    return math.expm1(job.interruptions_per_s * losing_fraction * length_s) / losing_fraction
