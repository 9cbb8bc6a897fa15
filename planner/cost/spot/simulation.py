"""One run played through on a market: on spot alone, or falling back to on-demand when the deadline nears.

The fall-back is Uniform Progress of Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under
Deadlines", NSDI 2024, section 5.2. With ``C`` the work left, ``R`` the time left, ``cp`` the progress made,
``ep(t) = t C(0) / R(0)`` the progress expected and ``d`` the time that a changeover costs:

- Uniform progress: idle and ``cp(t) < ep(t)``: to on-demand, to catch up.
- Taking risks: to spot whenever there is some; on spot until it is taken away.
- Hysteresis: on-demand is left only when ``cp(t) >= ep(t + 2d)``.
- Safety net: idle and ``R(t) < C(t) + 2d``: to on-demand until the end.

The paper guarantees the deadline if ``d`` is the largest changeover (section 5.6). Here it is a restart and
one interval with its save: what an interruption can at most lose.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from planner.cost.spot.interruptions import InterruptionProcess
from planner.cost.spot.job import SpotJob

MAX_INTERRUPTIONS = 100_000
"""A run that makes no headway is given up here: it would hold the machine for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """What came of it. Holdings are seconds that instances were held, one entry for each request."""

    wall_s: float  # infinite if it was given up
    spot_held_s: tuple[float, ...]
    on_demand_held_s: tuple[float, ...]
    interruption_count: int


class _Progress:
    """The state of a run between two holdings: only what a checkpoint keeps."""

    def __init__(self, job: SpotJob, interval_s: float) -> None:
        self.job = job
        self.interval_s = interval_s
        self.done_s = 0.0
        self.now_s = 0.0
        self.spot_held_s: list[float] = []
        self.on_demand_held_s: list[float] = []
        self.interruption_count = 0

    @property
    def left_s(self) -> float:
        """Seconds of work that no checkpoint has yet."""
        return self.job.work_s - self.done_s

    @property
    def start_s(self) -> float:
        """What the next start takes; before the first checkpoint there is none to load."""
        return self.job.restart.total_s if self.done_s > 0 else self.job.restart.first_s

    @property
    def to_finish_s(self) -> float:
        """Holding time to the end if nothing interrupts: start, work, and the saves."""
        saves = math.ceil(self.left_s / self.interval_s - 1e-9)
        return self.start_s + self.left_s + saves * self.job.saving.stall_s

    def hold_spot(self, until_s: float, chance: random.Random) -> bool:
        """Holds spot instances until they are lost or the run ends; True if it ended."""
        held_s = until_s - self.now_s
        if self.to_finish_s <= held_s:
            self.spot_held_s.append(self.to_finish_s)
            self.now_s += self.to_finish_s
            self.done_s = self.job.work_s
            return True
        saving = self.job.saving
        running_s = held_s - self.start_s
        period_s = self.interval_s + saving.stall_s
        if running_s > 0 and chance.random() < self.job.notice_saved_fraction:
            complete, rest_s = divmod(running_s, period_s)
            self.done_s += complete * self.interval_s + min(rest_s, self.interval_s)
            held_s += saving.durable_s
        elif running_s > 0:
            late_s = saving.durable_s - saving.stall_s
            self.done_s += max(0.0, (running_s - late_s) // period_s) * self.interval_s
        self.done_s = min(self.done_s, self.job.work_s)
        self.spot_held_s.append(held_s)
        self.now_s += held_s
        self.interruption_count += 1
        return self.left_s <= 0

    def hold_on_demand(self, held_s: float) -> None:
        """Holds on-demand instances and leaves them with a checkpoint of all that was done."""
        running_s = max(0.0, held_s - self.start_s)
        share = self.interval_s / (self.interval_s + self.job.saving.stall_s)
        self.done_s = min(self.job.work_s, self.done_s + running_s * share)
        self.on_demand_held_s.append(held_s)
        self.now_s += held_s

    def result(self) -> SimulatedRun:
        """The played run: times in seconds, infinite where the work was not done, and interruptions."""
        return SimulatedRun(
            wall_s=self.now_s if self.left_s <= 1e-6 * self.job.work_s else math.inf,
            spot_held_s=tuple(self.spot_held_s),
            on_demand_held_s=tuple(self.on_demand_held_s),
            interruption_count=self.interruption_count,
        )


def run_on_spot(
    job: SpotJob, interval_s: float, market: InterruptionProcess, chance: random.Random
) -> SimulatedRun:
    """On spot to the end, however long it takes."""
    progress = _Progress(job, interval_s)
    while progress.interruption_count < MAX_INTERRUPTIONS:
        progress.now_s = market.available_at_s(progress.now_s)
        if math.isinf(progress.now_s):
            break
        if progress.hold_spot(market.interrupted_at_s(progress.now_s), chance):
            break
    return progress.result()


def changeover_reserve_s(job: SpotJob, interval_s: float) -> float:
    """Kept in hand before a deadline: two changeovers, each with a restart and what an interval may lose."""
    return 2 * (job.restart.total_s + interval_s + job.saving.durable_s)


def run_with_fallback(
    job: SpotJob, interval_s: float, market: InterruptionProcess, deadline_s: float, chance: random.Random
) -> SimulatedRun:
    """Uniform Progress: spot, and on-demand when the run falls behind the line to ``deadline_s``."""
    progress = _Progress(job, interval_s)
    reserve_s = changeover_reserve_s(job, interval_s)
    slope = job.work_s / deadline_s
    while progress.left_s > 0:
        without_start_s = progress.to_finish_s - progress.start_s
        safe_until_s = deadline_s - without_start_s - reserve_s
        spot_s = market.available_at_s(progress.now_s)
        if progress.now_s >= safe_until_s:
            progress.hold_on_demand(progress.to_finish_s)
            progress.done_s = job.work_s
            break
        if spot_s <= progress.now_s:
            if progress.hold_spot(market.interrupted_at_s(progress.now_s), chance):
                break
            continue
        behind_at_s = progress.done_s / slope
        if behind_at_s <= progress.now_s:
            _catch_up(progress, market, slope, reserve_s)
        else:
            progress.now_s = min(spot_s, behind_at_s, safe_until_s)
    return progress.result()


def _catch_up(progress: _Progress, market: InterruptionProcess, slope: float, reserve_s: float) -> None:
    """On-demand until the run is ahead by two changeovers and there is spot to go to, or until its end."""
    speed = progress.interval_s / (progress.interval_s + progress.job.saving.stall_s)
    lead_s = math.inf
    if speed > slope:
        missing = (progress.now_s + progress.start_s + reserve_s) * slope - progress.done_s
        lead_s = progress.start_s + max(0.0, missing / (speed - slope))
    if lead_s < progress.to_finish_s:
        lead_s = market.available_at_s(progress.now_s + lead_s) - progress.now_s
    if lead_s >= progress.to_finish_s:
        progress.hold_on_demand(progress.to_finish_s)
        progress.done_s = progress.job.work_s
    else:
        progress.hold_on_demand(lead_s)
