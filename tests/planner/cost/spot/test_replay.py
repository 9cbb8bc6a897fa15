"""Against the record of a real spot pool."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.estimate.scores import default_data
from benchmarks.spot.coverage import coverage, mean_wait_s
from benchmarks.spot.replay import Case, held_s, job_in, replays
from benchmarks.spot.trace import read_pool
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.segments import means

RECORD = default_data() / "spot" / "p3trace.csv"
pytestmark = pytest.mark.skipif(not RECORD.exists(), reason="the record of the p3 spot pool is not here")


@pytest.mark.parametrize(
    "case",
    [
        Case(instance_count=1, work_s=3 * 3600.0, is_slot=True),
        Case(instance_count=1, work_s=3 * 3600.0),
        Case(instance_count=8, work_s=3 * 3600.0),
    ],
    ids=lambda one: one.name,
)
def test_the_first_half_predicts_what_the_second_bills(case: Case) -> None:
    first, second = read_pool(RECORD, 0.0, 0.5), read_pool(RECORD, 0.5, 1.0)
    job = job_in(first, case)
    interval_s = best_interval_s(job)
    replayed_s = statistics.fmean(held_s(replays(second, case, job, interval_s, 150)))
    assert means(job, interval_s).held_s == pytest.approx(replayed_s, rel=0.10)


def test_the_chosen_interval_is_near_the_best() -> None:
    pool = read_pool(RECORD)
    case = Case(instance_count=4, work_s=3 * 3600.0)
    job = job_in(pool, case)
    chosen_s = best_interval_s(job)
    mean_s = {
        factor: statistics.fmean(held_s(replays(pool, case, job, chosen_s * factor, 120)))
        for factor in (0.5, 1.0, 2.0)
    }
    assert mean_s[1.0] <= min(mean_s.values()) * 1.05


def test_wall_time_is_stated_wider_than_the_waits_alone_would_have_it() -> None:
    first, second = read_pool(RECORD, 0.0, 1 / 3), read_pool(RECORD, 1 / 3, 2 / 3)
    case = Case(instance_count=1, work_s=3 * 3600.0, is_slot=True)
    elsewhere_s = mean_wait_s([first, read_pool(RECORD, 2 / 3, 1.0)])
    found = coverage(first, second, case, elsewhere_s, 150)
    assert found.billed >= 0.85
    assert found.wall >= max(found.wall_exact, 0.85)
    assert found.wall_elsewhere >= 0.85
