"""Which global batch size is cheapest for the same loss; runs whose costs can be checked by hand."""

from __future__ import annotations

import pytest

from planner.plans.batch_size import choose_batch_size
from tests.builders import make_config, make_measurement, make_noise, make_target
from tests.planner.plans.batch_sizes import LAUNCH_S, SAMPLE_S, SAMPLES, SIZES, answer_at, chosen
from trials.extras import GradientDraw, GradientNoise
from trials.measurement import Measurement


def test_far_below_the_noise_scale_a_larger_batch_costs_no_samples_and_wins() -> None:
    batch = chosen(1e9)
    assert [one.size for one in batch.options] == [32, 64, 128, 256]
    assert (batch.reference, batch.chosen.size) == (32, 256)
    plan = batch.chosen.plan
    assert plan is not None
    assert plan.config.global_batch_size == 256
    assert plan.cost_usd.expected == pytest.approx(SAMPLES / 256 * (LAUNCH_S + 0.256) / 1000, rel=0.01)
    assert batch.chosen.learning_rate_factor == pytest.approx(8.0, rel=1e-3)


def test_far_above_it_every_further_sample_is_lost_and_the_reference_stays() -> None:
    batch = chosen(0.1)
    assert batch.chosen.size == 32
    largest = batch.options[-1]
    assert largest.target.samples == pytest.approx(SAMPLES * 256.1 / 32.1, rel=1e-3)
    assert largest.learning_rate_factor == pytest.approx(1.0, rel=0.01)


def test_cost_is_cost_to_the_same_loss() -> None:
    """Between the two: steps are proportional to 1 + N / B, and a step takes 0.1 s + 1 ms x B."""
    batch = chosen(64.0)
    costs = {one.size: one.plan.cost_usd.expected for one in batch.options if one.plan}
    for size, cost in costs.items():
        steps = SAMPLES * (64 + size) / (64 + 32) / size
        assert cost == pytest.approx(steps * (LAUNCH_S + SAMPLE_S * size) / 1000, rel=0.01)
    assert batch.chosen.size == min(costs, key=lambda size: costs[size]) == 64


def test_the_interval_of_the_noise_scale_widens_the_cost_and_is_held_against_the_budget() -> None:
    wide = GradientNoise(
        small_batch_size=8,
        big_batch_size=64,
        draws=tuple(
            GradientDraw(small_square=1 + scale / 8, big_square=1 + scale / 64)
            for scale in (20, 180, 60, 140)
        ),
        checkpoint=None,
    )
    target = make_target(samples=SAMPLES, batch_range=SIZES, budget_usd=500.0)
    batch = choose_batch_size(target, SIZES, [make_measurement(noise=wide)], 0.9, answer_at)
    option = batch.options[-1]
    assert option.plan is not None
    assert option.samples.low < option.samples.expected < option.samples.high
    cost = option.plan.cost_usd
    assert cost.high / cost.expected == pytest.approx(option.samples.high / option.samples.expected, rel=0.01)
    assert cost.low / cost.expected == pytest.approx(option.samples.low / option.samples.expected, rel=0.01)
    assert batch.options[0].plan is not None
    assert batch.options[0].plan.cost_usd.low == batch.options[0].plan.cost_usd.high  # the reference is sure


def test_a_size_that_keeps_the_deadline_goes_before_a_cheaper_one() -> None:
    """With a scale of 64 a batch of 64 is cheapest; in 5,600 s only 256 is done, on eight instances."""
    batch = chosen(64.0, make_target(samples=SAMPLES, batch_range=SIZES, deadline_s=5_600.0))
    assert [one.size for one in batch.options if one.answer.winner is not None] == [256]
    assert batch.chosen.size == 256
    plan = batch.chosen.plan
    assert plan is not None
    assert plan.instance_count == 8
    assert plan.duration_s.expected == pytest.approx(SAMPLES * 320 / 96 / 256 * (LAUNCH_S + 0.032), rel=0.01)


def test_the_users_size_stays_where_another_saves_two_per_cent_at_most() -> None:
    costs = {one.size: one.plan.cost_usd.expected for one in chosen(40.0).options if one.plan}
    assert costs[64] == min(costs.values())
    assert costs[32] > 1.02 * costs[64]
    assert chosen(40.0).chosen.size == 64
    nearly = chosen(22.0)  # for 64, 86 / 54 of the samples: half that many steps, of 164 and not 132 ms
    costs = {one.size: one.plan.cost_usd.expected for one in nearly.options if one.plan}
    assert 1.0 < costs[32] / costs[64] < 1.02
    assert nearly.chosen.size == 32


def test_without_a_noise_scale_the_size_stays_and_the_reason_is_said() -> None:
    batch = chosen(None)
    assert (batch.chosen.size, [one.size for one in batch.options]) == (32, [32])
    assert batch.problem.startswith("no trial with one worker has measured it")
    warned = make_measurement(warnings=("gradient noise not measured: CUDA out of memory",))
    assert problem_of(warned) == "CUDA out of memory"
    lost = GradientNoise(
        small_batch_size=8,
        big_batch_size=64,
        draws=(GradientDraw(small_square=100.0, big_square=12.0),) * 5,
        checkpoint=None,
    )
    assert "5 draws of 64 samples the gradient could not be told" in problem_of(make_measurement(noise=lost))


def test_the_latest_measured_noise_counts() -> None:
    early, late = (make_measurement(make_config(), noise=make_noise(one)) for one in (10.0, 1e9))
    target = make_target(samples=SAMPLES, batch_range=SIZES)
    batch = choose_batch_size(target, SIZES, [early, late, make_measurement()], 0.9, answer_at)
    assert batch.scale is not None
    assert batch.scale.expected == pytest.approx(1e9, rel=1e-3)


def problem_of(measured: Measurement) -> str:
    target = make_target(samples=SAMPLES, batch_range=SIZES)
    return choose_batch_size(target, SIZES, [measured], 0.9, answer_at).problem
