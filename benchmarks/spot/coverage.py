"""How often the intervals of planner/spot hold: made in one window of a real record, replayed in another.

Run: python -m benchmarks.spot.coverage [DATA] [--runs 200]    (DATA: the folder with spot/p3trace.csv)

Windows are halves, thirds and quarters; runs of 1, 3 and 6 hours wait for the replacement of one instance.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.estimate.scores import default_data
from benchmarks.spot.replay import HOUR_S, POOL_TARGET, Case, held_s, job_in, record_in, replays
from benchmarks.spot.trace import Pool, read_pool
from planner.cost.defaults import WAIT_S
from planner.cost.spot.history import replacement_wait_s
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.outcome import with_waits
from planner.cost.spot.spread import Spread, held_spread, quantile_s, spread_of, wall_spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of replays within 90% intervals made in another window, which gives the rate of interruptions.

    Of wall time by the mean wait that it reckons with: the window's, exactly or to `WAIT_FACTOR`; that of all
    but the replayed window, and the 30 minutes that planner ships, both to the factor.
    """

    billed: float
    wall_exact: float
    wall: float
    wall_elsewhere: float
    wall_shipped: float


COVERAGE_NAMES = {
    "billed": "billed time",
    "wall_exact": "wall time, the window's mean wait taken as exact",
    "wall": "wall time, the window's mean wait to a factor",
    "wall_elsewhere": "wall time, that of all but the replayed window",
    "wall_shipped": "wall time, 30 min to a factor, as shipped",
}


def coverage(known: Pool, played: Pool, case: Case, elsewhere_s: float, runs: int) -> Coverage:
    """Intervals made in one window against replays in another; ``elsewhere_s`` is the wait without that."""
    job = job_in(known, case)
    interval_s = best_interval_s(job)
    found = replays(played, case, job, interval_s, runs)
    walls_s = [one.wall_s for one in found]

    def within(spread: Spread, values_s: list[float]) -> float:
        low_s, high_s = quantile_s(spread, 0.05), quantile_s(spread, 0.95)
        return sum(low_s <= one <= high_s for one in values_s) / len(values_s)

    def to_a_factor(wait_s: float) -> float:
        waiting = replace(job, wait_s=wait_s)
        return within(spread_of(with_waits(((1.0, waiting),)), interval_s), walls_s)

    return Coverage(
        billed=within(held_spread(job, interval_s), held_s(found)),
        wall_exact=within(wall_spread(job, interval_s), walls_s),
        wall=to_a_factor(job.wait_s),
        wall_elsewhere=to_a_factor(elsewhere_s),
        wall_shipped=to_a_factor(WAIT_S),
    )


def print_coverage(path: Path, works_h: tuple[float, ...], runs: int) -> None:
    """Coverage of intervals that are made in one window and held against another."""
    later: list[Coverage] = []
    earlier: list[Coverage] = []
    for parts in (2, 3, 4):
        pools = [read_pool(path, index / parts, (index + 1) / parts) for index in range(parts)]
        for known, played in itertools.permutations(range(parts), 2):
            for work_h in works_h:
                case = Case(instance_count=1, work_s=work_h * HOUR_S, is_slot=True)
                others = [pool for number, pool in enumerate(pools) if number != played]
                found = coverage(pools[known], pools[played], case, mean_wait_s(others), runs)
                (later if played > known else earlier).append(found)
    print("\n90% intervals made in one window (half, third, quarter), held against replays in another")
    print(f"{'':50} {'a later window':>15} {'any window':>11} {'worst pair':>11}")
    for field, name in COVERAGE_NAMES.items():
        ahead, both = ([getattr(one, field) for one in rows] for rows in (later, later + earlier))
        print(f"{name:50} {statistics.fmean(ahead):15.0%} {statistics.fmean(both):11.0%} {min(both):11.0%}")


def mean_wait_s(pools: list[Pool]) -> float:
    """Mean wait for a replacement over several windows, by their losses."""
    waited_s = losses = 0.0
    for pool in pools:
        changes = pool.changes()
        count = max(0, POOL_TARGET - changes[0].gained) + sum(one.lost for one in changes)
        waited_s += (replacement_wait_s(changes, pool.length_s, POOL_TARGET) or 0.0) * count
        losses += count
    return waited_s / losses


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=default_data())
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    print_coverage(record_in(arguments.data), (1.0, 3.0, 6.0), arguments.runs)


if __name__ == "__main__":
    main()
