"""What a measurement is worth: closed forms against sampling, and which trial is advised."""

from __future__ import annotations

import math
import random

import pytest

from planner.estimate.interval.lognormal import log_spread
from planner.estimate.values import Basis, Estimate, Hardware
from planner.plans.recommendation import Recommendation
from planner.plans.value_of_information import leaving_usd, taking_usd
from tests.builders import (
    FakeEstimator,
    make_config,
    make_estimate,
    make_gpu,
    make_measurement,
    make_offer,
    make_target,
)
from tests.planner.plans.test_recommend import GPUS, _single, ask, one_config
from trials.trial import TrialConfig

CONFIDENCE = 0.9
H100 = make_gpu("H100-SXM5-80GB")


SPREAD = 0.3
COST = make_estimate(10.0 * math.exp(SPREAD**2 / 2))  # of a median of 10


def sampled() -> list[float]:
    draw = random.Random(7)
    return [10.0 * math.exp(SPREAD * draw.gauss(0, 1)) for _ in range(200_000)]


@pytest.mark.parametrize("rival_usd", [7.0, 10.0, 14.0])
def test_leaving_is_worth_what_sampling_says(rival_usd: float) -> None:
    costs = sampled()
    expected = sum(max(0.0, one - rival_usd) for one in costs) / len(costs)
    assert leaving_usd(COST, SPREAD, rival_usd) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("limit", [-0.5, 0.5, math.inf])
def test_taking_is_worth_what_sampling_says_within_the_limits(limit: float) -> None:
    costs = sampled()
    bound = 10.0 * math.exp(SPREAD * limit)
    expected = sum(max(0.0, 9.0 - one) for one in costs if one <= bound) / len(costs)
    assert taking_usd(COST, SPREAD, 9.0, limit) == pytest.approx(expected, rel=0.03)


def test_what_is_known_exactly_is_worth_nothing_to_measure() -> None:
    exact = make_estimate(10.0)
    assert log_spread(exact, CONFIDENCE) == 0.0
    assert leaving_usd(exact, 0.0, 9.0) == taking_usd(exact, 0.0, 11.0) == 0.0


def test_the_spread_is_that_of_the_interval() -> None:
    wide = make_estimate(10.0, high=10.0 * math.exp(0.3 * 1.6449), spread=1 - math.exp(-0.3 * 1.6449))
    assert log_spread(wide, CONFIDENCE) == pytest.approx(0.3, rel=1e-3)


def choose(spread: float, a100_usd: float = 4.4) -> Recommendation:
    """The L4 was measured: 2 s a step, $0.56. The A100, at 0.5 s, and the H100, at 0.25 s, were not."""
    seconds = {"L4-24GB": 2.0, "A100-SXM4-80GB": 0.5, H100.name: 0.25}
    l4 = make_config()
    offers = [
        make_offer(price_usd_per_hour=1.0),
        make_offer("A100-SXM4-80GB", price_usd_per_hour=a100_usd),
        make_offer(H100.name, price_usd_per_hour=80.0),
    ]
    estimator = FakeEstimator(
        step_s=lambda config: seconds[config.gpu] / config.gpu_count, spread=spread, measured=[l4]
    )
    return ask(
        offers,
        estimator,
        [make_measurement(l4, step_time_s=2.0)],
        configs_for=_single(one_config),
        gpus={**GPUS, H100.name: H100},
    )


def test_a_rival_whose_truth_may_win_is_named_and_one_out_of_reach_is_not() -> None:
    answer = choose(spread=0.4)
    assert answer.winner is not None
    assert answer.winner.basis is Basis.MEASURED
    (trial,) = answer.settling
    assert trial.plan.offer.gpu == "A100-SXM4-80GB"
    assert trial.rival is not None
    assert (trial.rival.rank, trial.plan.rank) == (1, 2)
    assert trial.cost_usd == pytest.approx(4.4 / 10)
    assert trial.expected_saving_usd is not None
    assert 0.003 < trial.expected_saving_usd < 0.2


def test_with_certain_numbers_nothing_decides() -> None:
    assert choose(spread=0.01).settling == ()


def test_a_predicted_winner_is_settled_against_its_best_rival() -> None:
    answer = choose(spread=0.4, a100_usd=3.9)
    assert answer.winner is not None
    assert answer.winner.offer.gpu == "A100-SXM4-80GB"
    trial = answer.settling[0]
    assert trial.plan == answer.winner
    assert trial.rival is not None
    assert trial.rival.offer.gpu == "L4-24GB"


def test_one_of_a_chip_teaches_of_several_only_what_one_is_unsure_of() -> None:
    """The trial is on one of an unmeasured chip where its error is the same, on four where it is not."""

    def advised(spread_of_one: float) -> int:
        class ScalesUnsurely(FakeEstimator):
            def step_time_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
                self.spread = 0.5 if config.gpu_count > 1 else spread_of_one
                return FakeEstimator.step_time_s(self, config, hardware)

        offers = [
            make_offer("A100-SXM4-80GB", price_usd_per_hour=100.0, gpu_count=4),
            make_offer("A100-SXM4-80GB", price_usd_per_hour=30.0),
            make_offer(price_usd_per_hour=110.0, gpu_count=4),
        ]
        long_run = make_target(samples=32_000_000, budget_usd=None)  # so that any trial pays
        answer = ask(offers, ScalesUnsurely(), target=long_run)
        trial = next(one for one in answer.settling if one.plan.offer.gpu == "A100-SXM4-80GB")
        return trial.offer.gpu_count * trial.instance_count

    assert advised(0.5) == 1
    assert advised(0.001) == 4
