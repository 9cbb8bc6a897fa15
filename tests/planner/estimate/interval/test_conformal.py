from __future__ import annotations

import random

import numpy as np
import pytest

from planner.estimate.interval.conformal import (
    Ground,
    conformal_quantile,
    half_width,
    spreads,
    weighted_quantile,
)


def test_the_conformal_quantile_is_the_rank_that_holds() -> None:
    scores = list(range(1, 20))  # nineteen: the 18th smallest covers 90% of a twentieth

    assert conformal_quantile(scores, 0.9) == 18
    assert conformal_quantile(scores[:8], 0.9) is None  # eight cannot promise 90%


def test_it_covers_what_it_says_on_new_draws() -> None:
    source = random.Random(7)
    hits = 0
    for _ in range(2000):
        *known, new = [source.lognormvariate(0.0, 1.0) for _ in range(31)]
        limit = conformal_quantile(known, 0.9)
        assert limit is not None
        hits += new <= limit

    assert 0.88 < hits / 2000 < 0.93  # 28 of 31 in the long run


def test_weights_move_the_quantile() -> None:
    values = np.array([1.0, 2.0, 3.0])

    assert weighted_quantile(values, np.array([1.0, 1.0, 1.0]), 0.5) == 2.0
    assert weighted_quantile(values, np.array([5.0, 1.0, 1.0]), 0.5) == 1.0
    assert weighted_quantile(values, np.array([1.0, 1.0, 9.0]), 0.9) == 3.0


@pytest.mark.parametrize("ground", list(Ground))
def test_more_confidence_is_wider(ground: Ground) -> None:
    table = spreads()
    widths = [table.multiplier(ground, confidence) for confidence in (0.5, 0.8, 0.9, 0.95)]

    assert widths == sorted(widths)
    assert 0.0 < widths[0] < widths[-1]


def test_the_noise_of_the_source_widens_every_way_alike() -> None:
    noisy = {half_width(ground, 0.0, 0.1, 0.9) for ground in Ground}

    assert sorted(noisy) == [pytest.approx(0.1645, rel=1e-3)]
    assert half_width(Ground.LINE, 0.1, 0.1, 0.9) > half_width(Ground.LINE, 0.1, 0.0, 0.9)
