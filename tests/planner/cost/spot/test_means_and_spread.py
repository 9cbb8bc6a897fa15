"""Means and distribution of an interrupted run: by hand, against each other, and against a simulation."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.spot.simulate import simulate
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.job import Restart, SaveCost, SpotJob, gang_rate_per_s
from planner.cost.spot.segments import means
from planner.cost.spot.spread import Spread, held_spread, quantile_s, wall_spread
from planner.errors import PlannerError
from tests.planner.cost.spot.test_interval import job


def mean_of(spread: Spread) -> float:
    masses = [spread.cumulative[0], *(after - before for before, after in pairwise(spread.cumulative))]
    return spread.base_s + spread.bin_s * math.fsum(index * mass for index, mass in enumerate(masses))


def test_dalys_cost_function_for_one_segment() -> None:
    one = SpotJob(
        work_s=3600.0,
        restart=Restart(provisioning_s=600.0),
        saving=SaveCost.synchronous(100.0),
        interruptions_per_s=1 / 5000,
    )
    expected = 5000 * math.exp(600 / 5000) * (math.exp(3700 / 5000) - 1) + 5000 * (math.exp(600 / 5000) - 1)
    assert means(one, 3600.0).held_s == pytest.approx(expected)


def test_without_interruptions_it_is_start_work_and_saves() -> None:
    found = means(job(rate_per_hour=0.0), 3600.0)
    assert (found.work_s, found.saving_s, found.starting_s, found.lost_s) == (72_000.0, 600.0, 240.0, 0.0)
    assert found.wall_s == found.held_s == 72_840.0
    assert held_spread(job(rate_per_hour=0.0), 3600.0).at_most(72_840.0) == 1.0
    assert held_spread(job(rate_per_hour=0.0), 3600.0).at_most(72_839.0) == 0.0


@given(
    rate=st.floats(0.001, 5),
    save_s=st.floats(1, 300),
    wait_s=st.floats(0, 7200),
    notice=st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=40, deadline=None)
def test_the_spread_has_the_mean_of_the_closed_form(
    rate: float, save_s: float, wait_s: float, notice: float
) -> None:
    one = replace(job(rate_per_hour=rate, save_s=save_s, notice=notice), wait_s=wait_s)
    interval_s = best_interval_s(one)
    found = means(one, interval_s)
    assert mean_of(held_spread(one, interval_s)) == pytest.approx(found.held_s, rel=1e-3)
    assert mean_of(wall_spread(one, interval_s)) == pytest.approx(found.wall_s, rel=1e-3)
    assert held_spread(one, interval_s).cumulative[-1] == pytest.approx(1.0, abs=1e-6)


def test_interruptions_are_rate_times_time_held() -> None:
    one = job(rate_per_hour=1.5)
    found = means(one, 600.0)
    assert found.interruption_count == pytest.approx(1.5 / 3600 * found.held_s)


@pytest.mark.parametrize(("rate", "notice", "late_s"), [(0.05, 0, 0), (0.5, 0, 0), (2, 0.5, 0), (1, 0, 60)])
def test_a_simulation_agrees_within_three_percent(rate: float, notice: float, late_s: float) -> None:
    one = replace(
        job(rate_per_hour=rate, notice=notice, work_s=6 * 3600.0),
        wait_s=600.0,
        saving=SaveCost(stall_s=20.0, durable_s=20.0 + late_s),
    )
    interval_s = best_interval_s(one)
    runs = [simulate(one, interval_s, random.Random(number)) for number in range(1000)]
    held, wall = (sorted(column) for column in zip(*runs, strict=True))
    found = means(one, interval_s)
    assert found.held_s == pytest.approx(statistics.fmean(held), rel=0.03)
    assert found.wall_s == pytest.approx(statistics.fmean(wall), rel=0.03)
    for share in (0.1, 0.5, 0.9):
        predicted_s = quantile_s(wall_spread(one, interval_s), share)
        assert predicted_s == pytest.approx(wall[int(share * len(wall))], rel=0.04)


def test_a_gang_is_lost_with_any_of_its_instances() -> None:
    assert gang_rate_per_s(0.36, 10) == pytest.approx(0.001)


@pytest.mark.parametrize("change", [{"work_s": 0.0}, {"wait_s": -1.0}, {"notice_saved_fraction": 1.5}])
def test_a_run_that_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(PlannerError, match=r"zero|from 0 to 1"):
        replace(job(), **change)  # type: ignore[arg-type]
