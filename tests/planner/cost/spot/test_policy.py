"""On-demand, spot, or spot that falls back: what each costs, which is chosen, and why."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from catalogs.offers import Pricing
from planner.cost.spot.compare import compare_policies
from planner.cost.spot.history import changes_of, estimate_market, hit_probability, replacement_wait_s
from planner.cost.spot.interruptions import PoissonInterruptions
from planner.cost.spot.job import SpotJob
from planner.cost.spot.policy import Policy, PolicyOutcome, Reason, choose_policy
from planner.cost.spot.simulation import run_on_spot, run_with_fallback
from planner.estimate.values import Basis, Estimate
from tests.builders import make_estimate, make_offer
from tests.planner.cost.spot.test_interval import job
from tests.planner.cost.spot.test_outcome import work

ON_DEMAND = make_offer(price_usd_per_hour=3.0)
SPOT = replace(ON_DEMAND, pricing=Pricing.SPOT, price_usd_per_hour=1.0)
HOUR_S = 3600.0


class Written:
    """A market with stated times of availability; afterwards there is none."""

    def __init__(self, *periods_h: tuple[float, float]) -> None:
        self.periods_s = [(begin * HOUR_S, end * HOUR_S) for begin, end in periods_h]

    def available_at_s(self, time_s: float) -> float:
        return next((max(begin, time_s) for begin, end in self.periods_s if end > time_s), math.inf)

    def interrupted_at_s(self, time_s: float) -> float:
        return next(end for begin, end in self.periods_s if begin <= time_s < end)


def run_of(hours: float) -> SpotJob:
    """Start 4 min, load 1 min, save 30 s."""
    return job(work_s=hours * HOUR_S)


def test_work_since_the_last_save_is_done_again() -> None:
    market = Written((0, 1.5), (2, 9))
    found = run_on_spot(run_of(2), 1800.0, market, random.Random(0))
    # 1.5 h less 4 min start: two intervals of 30 min and their saves fit, and 25 min are lost;
    # the rest is an hour of work with two saves after a restart of 5 min
    assert found.spot_held_s == (5400.0, 300 + 3600 + 60)
    assert found.wall_s == 7200 + 300 + 3600 + 60
    assert found.interruption_count == 1


def test_a_notice_that_saves_loses_only_the_save() -> None:
    one = replace(run_of(2), notice_saved_fraction=1.0)
    found = run_on_spot(one, 1800.0, Written((0, 1.5), (2, 9)), random.Random(0))
    done_s = 3600 + (5400 - 240 - 2 * 1830)
    left_s = 7200 - done_s
    assert found.spot_held_s == (5430.0, pytest.approx(300 + left_s + math.ceil(left_s / 1800) * 30))


def test_without_spot_the_fallback_is_on_demand_and_in_time() -> None:
    found = run_with_fallback(run_of(10), 1200.0, Written(), 12 * HOUR_S, random.Random(0))
    assert found.spot_held_s == ()
    assert len(found.on_demand_held_s) == 1
    assert found.wall_s <= 12 * HOUR_S


def test_behind_the_line_it_catches_up_on_demand_and_returns_to_spot() -> None:
    market = Written((0, 1), (6, 100))
    found = run_with_fallback(run_of(10), 1200.0, market, 30 * HOUR_S, random.Random(0))
    # 2/3 h of work is saved in the first hour, which is ep at 2 h: idle until then, on demand until 6 h
    assert len(found.spot_held_s) == 2
    assert found.on_demand_held_s == (pytest.approx(4 * HOUR_S, abs=HOUR_S / 3),)
    assert found.wall_s < 13 * HOUR_S


def test_it_waits_while_it_is_ahead_of_the_line() -> None:
    market = Written((0, 5), (6, 100))
    found = run_with_fallback(run_of(10), 1200.0, market, 30 * HOUR_S, random.Random(0))
    assert found.on_demand_held_s == ()
    assert len(found.spot_held_s) == 2


@pytest.mark.parametrize("rate_per_hour", [0.05, 0.5, 3])
def test_the_fallback_keeps_every_deadline_that_on_demand_keeps(rate_per_hour: float) -> None:
    one = replace(job(rate_per_hour=rate_per_hour, work_s=10 * HOUR_S), wait_s=3600.0)
    for seed in range(60):
        for deadline_h in (11, 13, 20):
            chance = random.Random(seed)
            market = PoissonInterruptions(one.interruptions_per_s, one.wait_s, chance)
            found = run_with_fallback(one, 600.0, market, deadline_h * HOUR_S, chance)
            assert found.wall_s <= deadline_h * HOUR_S


def test_a_deadline_decides_between_spot_and_fallback() -> None:
    one = replace(job(rate_per_hour=0.5), wait_s=1800.0)
    loose, tight = (
        choose_policy(
            compare_policies(one, work(20), 1, on_demand=ON_DEMAND, spot=SPOT, deadline_s=hours * HOUR_S)
        )
        for hours in (100, 26)
    )
    assert loose is not None
    assert tight is not None
    assert (loose.chosen.policy, loose.reason) == (Policy.SPOT, Reason.CHEAPEST_IN_TIME)
    assert (tight.chosen.policy, tight.reason) == (Policy.SPOT_WITH_FALLBACK, Reason.CHEAPEST_IN_TIME)
    assert tight.chosen.miss_probability == 0.0
    assert 0 < tight.chosen.on_demand_fraction < 1


@pytest.mark.parametrize("skew", [1.0, 1.2])
def test_an_expected_work_anywhere_in_its_interval_is_what_policies_are_compared_at(skew: float) -> None:
    """As the mean of a log-normal lies above its middle. Without interruptions all of it is arithmetic."""
    hours = Estimate(low=10 * HOUR_S, expected=20 * HOUR_S * skew, high=40 * HOUR_S, basis=Basis.PREDICTED)
    one = replace(job(rate_per_hour=0.0, work_s=hours.expected), wait_s=0.0)
    found = compare_policies(one, hours, 1, on_demand=ON_DEMAND, spot=SPOT, deadline_s=30 * HOUR_S)
    held_h = (hours.expected + one.restart.first_s + one.saving.stall_s) / HOUR_S
    costs = {outcome.policy: outcome.cost_usd.expected for outcome in found}
    assert costs[Policy.ON_DEMAND] == pytest.approx(3 * held_h, rel=0.01)
    assert costs[Policy.SPOT] == pytest.approx(held_h, rel=0.01)
    assert costs[Policy.SPOT_WITH_FALLBACK] == pytest.approx(held_h, rel=0.03)  # it saves more often
    late = {outcome.policy: outcome.miss_probability for outcome in found}
    assert late[Policy.ON_DEMAND] == pytest.approx(0.185)  # the high end alone


def test_the_comparison_is_the_same_every_time() -> None:
    one = replace(job(), wait_s=1800.0)
    first, second = (
        compare_policies(one, work(20, 0.1), 2, on_demand=ON_DEMAND, spot=SPOT, deadline_s=1e5)
        for _ in range(2)
    )
    assert first == second


def test_where_interruptions_are_all_too_frequent_on_demand_remains() -> None:
    found = compare_policies(
        job(rate_per_hour=3000.0), work(20), 1, on_demand=ON_DEMAND, spot=SPOT, deadline_s=1e6
    )
    choice = choose_policy(found)
    assert choice is not None
    assert choice.chosen.policy is Policy.ON_DEMAND
    assert choice.reason is Reason.ONLY_ONE


def test_nothing_to_compare_is_no_choice() -> None:
    assert choose_policy(compare_policies(job(), work(20), 1, on_demand=None, spot=None)) is None


def chosen_of(compared: list[PolicyOutcome]) -> Policy | None:
    choice = choose_policy(compared)
    return choice.chosen.policy if choice else None


def test_none_in_time_takes_the_least_late_and_a_tie_the_simpler() -> None:
    def outcome(policy: Policy, usd: float, miss: float) -> PolicyOutcome:
        return PolicyOutcome(
            policy=policy,
            cost_usd=make_estimate(usd),
            wall_s=make_estimate(1.0),
            miss_probability=miss,
            on_demand_fraction=0.0,
            checkpoint_interval_s=600.0,
        )

    tied = [outcome(Policy.SPOT_WITH_FALLBACK, 9.95, 0.0), outcome(Policy.SPOT, 10, 0.01)]
    assert chosen_of(tied) is Policy.SPOT
    assert chosen_of([tied[0], outcome(Policy.SPOT, 10.2, 0.01)]) is Policy.SPOT_WITH_FALLBACK
    choice = choose_policy([outcome(Policy.SPOT, 10, 0.9), outcome(Policy.ON_DEMAND, 30, 0.4)])
    assert choice is not None
    assert (choice.chosen.policy, choice.reason) == (Policy.ON_DEMAND, Reason.LEAST_LATE)


def test_a_batch_that_takes_two_of_four_hits_a_pair_with_five_sixths() -> None:
    assert hit_probability(4, 2, 2) == pytest.approx(5 / 6)
    assert hit_probability(4, 3, 2) == 1.0
    assert hit_probability(10, 1, 1) == pytest.approx(0.1)


def test_a_record_gives_rate_and_waits() -> None:
    # four up; after an hour two are lost, an hour later they are back, and it goes on for two hours
    changes = changes_of([(0.0, 1)] * 4 + [(HOUR_S, -1)] * 2 + [(2 * HOUR_S, 1)] * 2)
    alone = estimate_market(changes, 4 * HOUR_S, 1)
    all_four = estimate_market(changes, 4 * HOUR_S, 4)
    assert alone is not None
    assert all_four is not None
    assert alone.interruptions_per_s * HOUR_S == pytest.approx(0.5 / 4)
    assert all_four.interruptions_per_s * HOUR_S == pytest.approx(1 / 3)
    assert all_four.wait_s == HOUR_S
    assert all_four.low_per_s < all_four.interruptions_per_s < all_four.high_per_s
    assert replacement_wait_s(changes, 4 * HOUR_S, 4) == HOUR_S
    assert estimate_market(changes, 4 * HOUR_S, 5) is None
