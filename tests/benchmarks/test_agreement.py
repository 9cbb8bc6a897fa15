"""The arithmetic of the comparison of a trial with the plain loop, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from benchmarks.agreement import Block, Round, interval, row


def make_round(reported_s: float) -> Round:
    """The loop takes 0.1 s a step, 0.09 s of it on the CPU; the trial's steps 0.1 and 0.14 s."""
    blocks = [
        Block(trial_times_s=(0.1, 0.14), trial_cpu_s=0.18, loop_s=0.2, loop_cpu_s=0.18) for _ in range(5)
    ]
    return Round(reported_s=reported_s, blocks=tuple(blocks))


def test_a_round_is_the_reported_time_over_the_loops_mean() -> None:
    one = make_round(0.11)
    assert one.step_count == 10
    assert one.loop_step_s == pytest.approx(0.1)
    assert one.ratio == pytest.approx(1.1)
    assert one.median_ratio == pytest.approx(1.2)
    assert one.cpu_ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("reported_s", "verdict"), [((0.099, 0.1, 0.101), "yes"), ((0.11, 0.11), "no"), ((0.1, 0.105), "open")]
)
def test_the_verdict_is_the_whole_intervals(reported_s: tuple[float, ...], verdict: str) -> None:
    found = row("gpt", [[make_round(one)] for one in reported_s])
    assert found.split()[-3] == verdict


def test_the_interval_is_students_of_the_logarithms() -> None:
    ratios = [0.9, 1.0 / 0.9] * 5  # logarithms of -0.1054 and 0.1054: deviation 0.1111
    middle, low, high = interval(ratios)
    assert middle == pytest.approx(1.0)
    assert high == pytest.approx(1.0 + 2.262 * 0.1111 / 10**0.5, abs=0.004)
    assert low == pytest.approx(1 / high)
