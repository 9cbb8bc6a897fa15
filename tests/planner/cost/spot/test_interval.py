"""How often to save: against the examples of Daly's paper, and against the exact optimum."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.cost.spot.interval import best_interval_s, daly_interval_s, young_interval_s
from planner.cost.spot.job import Restart, SaveCost, SpotJob
from planner.cost.spot.segments import means


def job(**changes: float) -> SpotJob:
    values = {"work_s": 20 * 3600.0, "save_s": 30.0, "rate_per_hour": 0.5, **changes}
    return SpotJob(
        work_s=values["work_s"],
        restart=Restart(provisioning_s=240.0, load_s=60.0),
        saving=SaveCost.synchronous(values["save_s"]),
        interruptions_per_s=values["rate_per_hour"] / 3600,
        notice_saved_fraction=values.get("notice", 0.0),
    )


@pytest.mark.parametrize(("mean_time_minutes", "best_minutes"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_daly_gives_the_intervals_of_his_figures_3_to_5(
    mean_time_minutes: float, best_minutes: float
) -> None:
    found = daly_interval_s(5 * 60, mean_time_minutes * 60) / 60
    assert found == pytest.approx(best_minutes, rel=0.01)


def test_daly_is_the_time_between_interruptions_where_saving_takes_twice_that() -> None:
    assert daly_interval_s(300.0, 100.0) == 100.0


def test_young_is_the_root_of_twice_the_product() -> None:
    assert young_interval_s(2.0, 10_000.0) == 200.0


@pytest.mark.parametrize("rate_per_hour", [0.01, 0.1, 1, 10])
def test_no_other_interval_is_worth_half_a_percent(rate_per_hour: float) -> None:
    one = job(rate_per_hour=rate_per_hour)
    chosen_s = best_interval_s(one)
    best_s = min(means(one, chosen_s * factor / 100).held_s for factor in range(20, 500, 5))
    assert means(one, chosen_s).held_s <= best_s * 1.005


def test_nothing_to_fear_means_one_save_at_the_end() -> None:
    assert best_interval_s(job(rate_per_hour=0.0)) == 20 * 3600.0
    assert best_interval_s(job(notice=1.0)) == 20 * 3600.0


@given(notice=st.floats(0, 0.99), rate=st.floats(1e-4, 50), save_s=st.floats(0, 1000))
def test_the_more_notices_save_the_longer_the_interval(notice: float, rate: float, save_s: float) -> None:
    assume(save_s < 2 * 3600 / rate)  # from there on Daly's formula jumps by an eighth
    with_notice = best_interval_s(job(notice=notice, rate_per_hour=rate, save_s=save_s))
    assert with_notice >= best_interval_s(job(rate_per_hour=rate, save_s=save_s)) * (1 - 1e-9)
    assert 0 < with_notice <= 20 * 3600.0
