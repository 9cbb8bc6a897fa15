"""The closed forms of planner/spot against a discrete-event simulation written apart from them.

Run: python -m benchmarks.spot.simulate [--runs 4000]

Prints, over rates from one interruption in ten runs to hundreds in one, the error of the mean held and wall
time and of their 10th and 90th percentile, and what Daly's interval costs beyond the best one of a grid.
The simulation walks from event to event: start, stretch of work, save, loss, wait.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.job import Restart, SaveCost, SpotJob
from planner.cost.spot.segments import means
from planner.cost.spot.spread import held_spread, quantile_s, wall_spread

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One setting of the table; rates are per hour."""

    name: str
    job: SpotJob


def job_of(
    rate_per_hour: float,
    *,
    work_h: float = 12.0,
    save_s: float = 30.0,
    durable_s: float | None = None,
    restart_s: float = 300.0,
    wait_s: float = 600.0,
    notice: float = 0.0,
) -> SpotJob:
    """A run with the parts of its start in a usual proportion."""
    return SpotJob(
        work_s=work_h * HOUR_S,
        restart=Restart(
            provisioning_s=0.6 * restart_s,
            set_up_s=0.15 * restart_s,
            load_s=0.1 * restart_s,
            compile_s=0.1 * restart_s,
            start_up_s=0.05 * restart_s,
        ),
        saving=SaveCost(stall_s=save_s, durable_s=save_s if durable_s is None else durable_s),
        interruptions_per_s=rate_per_hour / HOUR_S,
        wait_s=wait_s,
        notice_saved_fraction=notice,
    )


def cases() -> Iterable[Case]:
    """Rates over four decades; then saves, restarts, asynchronous saving and saving on notice."""
    for rate in (0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10):
        yield Case(name=f"{rate:g}/h", job=job_of(rate))
    for rate in (0.1, 1, 3):
        yield Case(name=f"{rate:g}/h, save 5 min", job=job_of(rate, save_s=300))
        yield Case(name=f"{rate:g}/h, restart 20 min", job=job_of(rate, restart_s=1200))
        yield Case(name=f"{rate:g}/h, 1 h of work", job=job_of(rate, work_h=1.0))
    for rate in (0.1, 1, 3):
        yield Case(name=f"{rate:g}/h, async 2 s/60 s", job=job_of(rate, save_s=2, durable_s=60))
        yield Case(name=f"{rate:g}/h, notice saves 50%", job=job_of(rate, notice=0.5))
        yield Case(name=f"{rate:g}/h, notice saves all", job=job_of(rate, notice=1.0))


class Simulation:
    """One run, event by event, on the clock of held time."""

    def __init__(self, job: SpotJob, interval_s: float, chance: random.Random) -> None:
        self.job = job
        self.interval_s = interval_s
        self.chance = chance
        self.held_s = 0.0
        self.waited_s = 0.0
        self.done_s = 0.0
        self.durable_s = 0.0
        self.pending: tuple[float, float] | None = None  # work in a save, and when that will be durable
        self.lost_at_s = chance.expovariate(job.interruptions_per_s)

    def play(self) -> tuple[float, float]:
        """Held and wall seconds until the end."""
        while True:
            self.done_s, self.pending = self.durable_s, None
            restart = self.job.restart
            is_alive = self.pass_time(restart.total_s if self.durable_s > 0 else restart.first_s)
            while is_alive and self.done_s < self.job.work_s:
                is_alive = self.stretch()
            if is_alive or self.rescue():
                return self.held_s, self.held_s + self.waited_s
            if self.job.wait_s > 0:
                self.waited_s += self.chance.expovariate(1 / self.job.wait_s)

    def stretch(self) -> bool:
        """One interval of work and its save; False if the instances are lost meanwhile."""
        work_s = min(self.interval_s, self.job.work_s - self.done_s)
        begun_s = self.held_s
        if not self.pass_time(work_s):
            self.done_s += self.held_s - begun_s
            return False
        self.done_s += work_s
        durable_at_s = self.held_s + self.job.saving.durable_s
        if not self.pass_time(self.job.saving.stall_s):
            return False
        self.pending = (self.done_s, durable_at_s)
        self.settle()
        return True

    def rescue(self) -> bool:
        """Lost: perhaps a save on notice; True if that completes the run."""
        if self.done_s > self.durable_s and self.chance.random() < self.job.notice_saved_fraction:
            self.durable_s = self.done_s
            self.held_s += self.job.saving.durable_s
            self.lost_at_s += self.job.saving.durable_s
        return self.durable_s >= self.job.work_s

    def pass_time(self, length_s: float) -> bool:
        """Let time pass; False if the instances are lost meanwhile."""
        is_alive = self.held_s + length_s < self.lost_at_s
        self.held_s = self.held_s + length_s if is_alive else self.lost_at_s
        if not is_alive:
            self.lost_at_s += self.chance.expovariate(self.job.interruptions_per_s)
        self.settle()
        return is_alive

    def settle(self) -> None:
        """A save that has reached the disk counts."""
        if self.pending and self.held_s >= self.pending[1]:
            self.durable_s, self.pending = self.pending[0], None


def simulate(job: SpotJob, interval_s: float, chance: random.Random) -> tuple[float, float]:
    """Held and wall seconds of one run."""
    return Simulation(job, interval_s, chance).play()


def mean_held_s(job: SpotJob, interval_s: float, runs: int, seed: str) -> float:
    """Mean held time of ``runs`` simulated runs."""
    return statistics.fmean(
        simulate(job, interval_s, random.Random(f"{seed} {number}"))[0] for number in range(runs)
    )


def error(predicted: float, simulated: float) -> float:
    """Signed relative error."""
    return predicted / simulated - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Errors of one case, as fractions."""

    name: str
    interval_s: float
    interruptions: float
    held: float
    wall: float
    standard_error: float  # of the simulated mean held time
    held_p10: float
    held_p90: float
    wall_p10: float
    wall_p90: float


def check(case: Case, runs: int) -> Row:
    """Closed forms against ``runs`` simulated runs."""
    job = case.job
    interval_s = best_interval_s(job)
    pairs = [simulate(job, interval_s, random.Random(f"{case.name} {number}")) for number in range(runs)]
    held = sorted(one[0] for one in pairs)
    wall = sorted(one[1] for one in pairs)
    mean = means(job, interval_s)
    held_spreads = held_spread(job, interval_s)
    wall_spreads = wall_spread(job, interval_s)
    tenth, ninth = int(0.1 * runs), int(0.9 * runs)
    return Row(
        name=case.name,
        interval_s=interval_s,
        interruptions=mean.interruption_count,
        held=error(mean.held_s, statistics.fmean(held)),
        wall=error(mean.wall_s, statistics.fmean(wall)),
        standard_error=statistics.stdev(held) / statistics.fmean(held) / runs**0.5,
        held_p10=error(quantile_s(held_spreads, 0.1), held[tenth]),
        held_p90=error(quantile_s(held_spreads, 0.9), held[ninth]),
        wall_p10=error(quantile_s(wall_spreads, 0.1), wall[tenth]),
        wall_p90=error(quantile_s(wall_spreads, 0.9), wall[ninth]),
    )


def interval_regret(job: SpotJob, runs: int) -> tuple[float, float]:
    """What the chosen interval costs beyond the best of a grid, simulated, and that best interval.

    All intervals meet the same interruptions, so that chance does not choose among them.
    """
    chosen_s = best_interval_s(job)
    grid = {chosen_s * factor for factor in (0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0, 2.8, 4.0)}
    grid = {min(one, job.work_s) for one in grid}
    held = {one: mean_held_s(job, one, runs, "grid") for one in sorted(grid)}
    best_s = min(held, key=lambda one: held[one])
    return held[chosen_s] / held[best_s] - 1, best_s


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    runs = parser.parse_args().runs
    print(f"{'case':26} {'interval':>9} {'losses':>7} {'held':>7} {'+-2se':>6} {'wall':>7}", end="")
    print(f" {'held p10':>8} {'p90':>6} {'wall p10':>8} {'p90':>6}")
    rows = [check(case, runs) for case in cases()]
    for row in rows:
        print(
            f"{row.name:26} {row.interval_s:8.0f}s {row.interruptions:7.2f} {row.held:+7.2%} "
            f"{2 * row.standard_error:6.2%} {row.wall:+7.2%} {row.held_p10:+8.2%} {row.held_p90:+6.2%} "
            f"{row.wall_p10:+8.2%} {row.wall_p90:+6.2%}"
        )
    print(f"largest error of a mean: held {max(abs(row.held) for row in rows):.2%}", end="")
    print(f", wall {max(abs(row.wall) for row in rows):.2%}\n")
    print("the chosen interval against the best of a grid (simulated, same interruptions for all)")
    for rate in (0.01, 0.1, 0.3, 1, 3, 10):
        job = job_of(rate)
        regret, best_s = interval_regret(job, runs // 4)
        print(f"{rate:6g}/h: chosen {best_interval_s(job):6.0f} s, best {best_s:6.0f} s, {regret:+.2%} cost")


if __name__ == "__main__":
    main()
