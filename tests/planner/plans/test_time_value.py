"""Which plan is best by the value of an hour."""

from __future__ import annotations

import pytest

from planner.plans.time_value import best_by_hour_value
from tests.builders import make_offer, make_target
from tests.planner.plans.test_recommend import A100, CPU, _single, ask, one_config, speeds

OFFERS = [
    make_offer(CPU.name, price_usd_per_hour=0.9),  # 4,000 s: $1.00
    make_offer(price_usd_per_hour=3.6),  # 2,000 s: $2.00
    make_offer(A100.name, price_usd_per_hour=18.0),  # 1,000 s: $5.00
]
ESTIMATOR = speeds(CPU=4.0, L4=2.0, A100=1.0)


@pytest.mark.parametrize(
    ("hour_value_usd", "winner"), [(None, 0), (0.0, 0), (1.7, 0), (1.9, 1), (10.7, 1), (11.0, 2)]
)
def test_the_least_of_cost_and_waiting_wins(hour_value_usd: float | None, winner: int) -> None:
    target = make_target(hour_value_usd=hour_value_usd)
    answer = ask(OFFERS, ESTIMATOR, configs_for=_single(one_config), target=target)
    assert answer.winner is not None
    assert answer.winner.offer == OFFERS[winner]
    assert answer.winner.rank == 1


def test_the_corners_of_the_frontier_and_the_values_between_them() -> None:
    answer = ask(OFFERS, ESTIMATOR, configs_for=_single(one_config))
    values = answer.time_values
    assert [one.plan.offer for one in values] == OFFERS
    # $1 for 2,000 s is $1.80 an hour, $3 for 1,000 s is $10.80
    assert [one.hour_value_usd for one in values] == pytest.approx([0.0, 1.8, 10.8])


def test_a_plan_on_the_frontier_that_is_best_at_no_value_is_left_out() -> None:
    offers = [OFFERS[0], make_offer(price_usd_per_hour=8.1), OFFERS[2]]  # $4.50 for 2,000 s
    answer = ask(offers, ESTIMATOR, configs_for=_single(one_config))
    assert len(answer.frontier) == 3
    assert [one.plan.offer for one in answer.time_values] == [offers[0], offers[2]]


def test_only_plans_within_the_limits_are_weighed() -> None:
    target = make_target(deadline_s=3000.0)  # at the high end: the CPU takes up to 5,200 s
    answer = ask(OFFERS, ESTIMATOR, configs_for=_single(one_config), target=target)
    assert [one.plan.offer for one in answer.time_values] == OFFERS[1:]
    assert best_by_hour_value(()) == ()
