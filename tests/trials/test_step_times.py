from __future__ import annotations

import random

import pytest

from trials.step_times import half_width_fraction, outliers, step_s

STEADY = tuple(0.1 + 0.0001 * (index % 5) for index in range(20))


def test_a_step_takes_the_mean_of_uneven_steps() -> None:
    """The run pays for every step: of a loader that stalls at each fourth the median knows nothing."""
    assert step_s([0.1, 0.1, 0.1, 0.3] * 5) == pytest.approx(0.15)
    assert step_s([0.1, 0.2] * 5) == pytest.approx(0.15)


def test_a_rare_outlier_is_left_out() -> None:
    assert outliers((*STEADY, 0.5)) == (20,)
    assert step_s((*STEADY, 0.5)) == pytest.approx(step_s(STEADY))
    assert half_width_fraction((*STEADY, 0.5)) == pytest.approx(half_width_fraction(STEADY))


def test_outliers_that_come_often_are_the_run_itself() -> None:
    times = (*STEADY, *[0.5] * 3)  # 3 of 23
    assert len(outliers(times)) == 3
    assert step_s(times) == pytest.approx(sum(times) / len(times))


def test_equal_times_have_no_outliers_and_no_width() -> None:
    assert outliers((0.1,) * 10) == ()
    assert half_width_fraction((0.1,) * 10) == pytest.approx(0.0, abs=1e-12)
    assert half_width_fraction((0.1,)) == 0.0


@pytest.mark.parametrize(("count", "t"), [(10, 2.262), (20, 2.093), (101, 1.984)])
def test_half_width_is_students(count: int, t: float) -> None:
    """Tabled two-sided 95% quantiles for count - 1 degrees of freedom."""
    times = [1.0 + 0.1 * (-1) ** index for index in range(count)]
    mean = sum(times) / count
    deviation = (sum((one - mean) ** 2 for one in times) / (count - 1)) ** 0.5
    assert half_width_fraction(times) == pytest.approx(t * deviation / count**0.5 / mean, rel=0.01)


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(2000):
        times = [draw.gauss(1.0, 0.05) for _ in range(10)]
        hits += abs(step_s(times) - 1.0) <= half_width_fraction(times) * step_s(times)
    assert 0.94 <= hits / 2000 <= 0.96


def test_half_width_shrinks_with_more_steps() -> None:
    draw = random.Random(2)
    times = [0.1 * draw.lognormvariate(0.0, 0.1) for _ in range(200)]
    assert half_width_fraction(times) < half_width_fraction(times[:20])
