from __future__ import annotations

import pytest

from planner.estimate.interval.conformal import (
    Ground,
    half_width,
    spreads,
)


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
