"""What would flip the choice: every number checked by hand on small catalogs."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from catalogs.offers import Offer, Pricing
from planner.plans.recommendation import Recommendation
from planner.plans.sensitivity import Sensitivity, WhatIf, crossing
from tests.builders import FakeEstimator, make_config, make_measurement, make_offer, make_target
from tests.planner.plans.test_recommend import A100, _single, ask, one_config, speeds

L4_OFFER = make_offer(price_usd_per_hour=1.0)  # 2,000 s: $0.556
A100_OFFER = make_offer(A100.name, price_usd_per_hour=2.4)  # 1,000 s: $0.667, 20% more
SPEEDS = {"L4": 2.0, "A100": 1.0}


def by_change(answer: Recommendation) -> dict[WhatIf, Sensitivity]:
    return {one.change: one for one in answer.sensitivities}


def answers(*offers: Offer, **changes: object) -> dict[WhatIf, Sensitivity]:
    return by_change(ask(offers, speeds(**SPEEDS), configs_for=_single(one_config), **changes))


def test_the_price_may_rise_until_the_rival_is_cheaper() -> None:
    found = answers(L4_OFFER, A100_OFFER)[WhatIf.PRICE_UP]
    assert not found.is_flipped
    assert found.flip_fraction == pytest.approx(0.2, rel=1e-3)
    assert found.rival is not None
    assert found.rival.offer == A100_OFFER
    exact = replace(speeds(**SPEEDS), spread=0.001)
    closer = by_change(
        ask([L4_OFFER, replace(A100_OFFER, price_usd_per_hour=2.1)], exact, configs_for=_single(one_config))
    )
    assert closer[WhatIf.PRICE_UP].is_flipped
    assert closer[WhatIf.RIVALS_DOWN].is_flipped  # $0.583 less a tenth is $0.525
    assert closer[WhatIf.RIVALS_DOWN].rival is not None


def test_the_same_chip_elsewhere_is_no_rival_but_its_spot_price_is() -> None:
    dearer = make_offer(price_usd_per_hour=1.01, region="next-door")
    spot = make_offer(price_usd_per_hour=1.05, pricing=Pricing.SPOT, interruption_rate_per_hour=1e-9)
    found = answers(L4_OFFER, dearer, A100_OFFER)[WhatIf.PRICE_UP]
    assert found.rival is not None
    assert found.rival.offer == A100_OFFER
    found = answers(L4_OFFER, dearer, spot, A100_OFFER)[WhatIf.PRICE_UP]
    assert found.rival is not None
    assert found.rival.offer == spot
    assert found.flip_fraction == pytest.approx(0.05, rel=0.01)  # two checkpoints less are saved


def test_a_rise_that_breaks_the_budget_takes_the_winner_out_without_a_rival() -> None:
    target = make_target(budget_usd=0.75)  # the high end of $0.556 is $0.722
    found = answers(L4_OFFER, target=target)[WhatIf.PRICE_UP]
    assert found.is_flipped
    assert found.rival is None
    assert found.flip_fraction == pytest.approx(0.75 / (0.5556 * 1.3) - 1, rel=1e-2)


def test_without_any_rival_or_limit_nothing_flips() -> None:
    found = answers(L4_OFFER, target=make_target(budget_usd=None))
    assert not any(one.is_flipped for one in found.values())
    assert found[WhatIf.PRICE_UP].flip_fraction is None


def test_the_low_end_of_the_speed_is_held_against_plans_with_errors_of_their_own() -> None:
    found = answers(L4_OFFER, A100_OFFER)[WhatIf.SPEED_LOW]
    assert found.moved_fraction == pytest.approx(0.3)
    assert found.flip_fraction == pytest.approx(0.2, rel=1e-3)
    assert found.is_flipped
    alone = answers(L4_OFFER, replace(L4_OFFER, pricing=Pricing.SPOT, price_usd_per_hour=1.05))
    assert not alone[WhatIf.SPEED_LOW].is_flipped  # the same machine would be as slow


def test_counts_of_one_unmeasured_chip_share_their_error_and_measured_ones_do_not() -> None:
    two = make_offer(price_usd_per_hour=2.3, gpu_count=2)
    predicted = by_change(ask([L4_OFFER, two], speeds(L4=2.0)))
    assert predicted[WhatIf.SPEED_LOW].rival is None
    config = make_config(gpu_count=1)
    estimator = FakeEstimator(
        step_s=lambda config: 2.0 / config.gpu_count, measured=[config], measured_spread=0.2
    )
    known = by_change(ask([L4_OFFER, two], estimator, [make_measurement(config, step_time_s=2.0)]))
    assert known[WhatIf.SPEED_LOW].rival is not None


def test_an_old_price_is_asked_for_what_it_can_bear() -> None:
    def aged(day: date) -> Sensitivity | None:
        return answers(replace(L4_OFFER, as_of=day), A100_OFFER).get(WhatIf.PRICE_AGE)

    assert aged(date(2025, 5, 20)) is None  # 13 days
    young = aged(date(2025, 5, 1))  # 32 days: a drift of 11%
    assert young is not None
    assert (young.age_days, young.is_flipped) == (32, False)
    old = aged(date(2025, 3, 1))  # 93 days: 31%
    assert old is not None
    assert (old.age_days, old.is_flipped) == (93, True)
    assert old.moved_fraction == pytest.approx(0.31)
    ancient = aged(date(2020, 1, 1))
    assert ancient is not None
    assert ancient.moved_fraction == 0.5


def test_the_value_of_waiting_counts_in_every_comparison() -> None:
    """At $1 an hour the A100 costs 0.667 + 0.278 = 0.944 and the L4 0.556 + 0.556 = 1.111."""
    found = answers(L4_OFFER, A100_OFFER, target=make_target(hour_value_usd=1.0))[WhatIf.PRICE_UP]
    assert found.rival is not None
    assert found.rival.offer == L4_OFFER
    assert found.flip_fraction == pytest.approx((1.1111 - 0.9444) / 0.6667, rel=1e-2)


def test_a_crossing_is_found_or_there_is_none() -> None:
    assert crossing(lambda factor: factor > 3.5, 1.0, 100.0) == pytest.approx(3.5, rel=1e-6)
    assert crossing(lambda factor: factor > 200, 1.0, 100.0) is None
    assert crossing(lambda factor: True, 1.0, 100.0) == pytest.approx(1.0, rel=1e-6)
