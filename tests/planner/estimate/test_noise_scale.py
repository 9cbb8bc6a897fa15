"""From gradient norms to the samples that another batch size needs."""

from __future__ import annotations

import random

import pytest

from planner.estimate.noise_scale import (
    NoiseScale,
    learning_rate_factor,
    noise_scale,
    samples_factor,
    samples_factors,
)
from trials.extras import GradientDraw, GradientNoise


def draws(seed: int, count: int, signal: float, spread: float, size: int = 200) -> GradientNoise:
    """Norms of normal gradients in batches of 4 and 32: |G|^2 is ``signal``, tr(Sigma) is ``spread``."""
    generator = random.Random(seed)
    mean = (signal / size) ** 0.5

    def square(batch: int) -> float:
        sigma = (spread / size / batch) ** 0.5
        return sum(generator.gauss(mean, sigma) ** 2 for _ in range(size))

    found = [
        GradientDraw(small_square=sum(square(4) for _ in range(8)) / 8, big_square=square(32))
        for _ in range(count)
    ]
    return GradientNoise(small_batch_size=4, big_batch_size=32, draws=tuple(found), checkpoint=None)


def test_the_interval_holds_as_often_as_it_says() -> None:
    held = 0
    for seed in range(150):
        found = noise_scale(draws(seed, 25, signal=1.0, spread=40.0))
        held += found is not None and found.low <= 40.0 and (found.high is None or found.high >= 40.0)
    assert 0.84 <= held / 150 <= 0.97


def test_more_draws_narrow_it() -> None:
    few, many = (noise_scale(draws(1, count, signal=1.0, spread=40.0)) for count in (10, 200))
    assert few is not None
    assert many is not None
    assert few.high is not None
    assert many.high is not None
    assert many.high - many.low < 0.5 * (few.high - few.low)
    assert many.expected == pytest.approx(40.0, rel=0.1)


def test_a_gradient_lost_in_noise_has_no_upper_end_or_no_scale() -> None:
    for seed in range(8):
        found = noise_scale(draws(seed, 6, signal=1e-4, spread=400.0))
        assert found is None or found.high is None
        assert found is None or found.low > 100


def test_samples_hardly_grow_below_the_scale_and_in_proportion_far_above() -> None:
    assert samples_factor(1e6, 512, 256) == pytest.approx(1.0, rel=1e-3)
    assert samples_factor(1000.0, 1000, 1) == pytest.approx(2.0, rel=1e-2)
    assert samples_factor(1.0, 4000, 2000) == pytest.approx(2.0, rel=1e-2)
    assert samples_factor(100.0, 64, 64) == 1.0


def test_the_learning_rate_grows_with_the_batch_up_to_a_bound() -> None:
    assert learning_rate_factor(1e6, 512, 256) == pytest.approx(2.0, rel=1e-2)
    assert learning_rate_factor(1.0, 512, 256) == pytest.approx(1.0, rel=1e-2)


def test_the_interval_of_the_scale_is_one_of_the_samples() -> None:
    scale = NoiseScale(low=50.0, expected=100.0, high=200.0, draw_count=20)
    more, less = samples_factors(scale, 300, 100), samples_factors(scale, 100, 300)
    assert (more.low, more.expected, more.high) == pytest.approx((500 / 300, 2.0, 350 / 150))
    assert (less.low, less.expected, less.high) == pytest.approx((150 / 350, 0.5, 300 / 500))
    unbounded = NoiseScale(low=50.0, expected=100.0, high=None, draw_count=20)
    assert samples_factors(unbounded, 300, 100).low == 1.0
