"""Dollars, deadline and break-even of a run on spot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.offers import Offer, Pricing
from planner.cost.spot.break_even import break_even_rate_per_s, on_demand_held_s
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.job import SaveCost, SpotJob
from planner.cost.spot.outcome import (
    SpotOutcome,
    best_saving,
    mean_times,
    rounding_per_holding_s,
    spot_outcome,
    spot_times,
)
from planner.cost.spot.segments import means
from planner.estimate.values import Basis, Estimate
from tests.builders import make_offer
from tests.planner.cost.spot.test_interval import job

ON_DEMAND = make_offer(price_usd_per_hour=3.6)
SPOT = replace(ON_DEMAND, pricing=Pricing.SPOT, price_usd_per_hour=0.9)


def work(hours: float, spread: float = 0.0) -> Estimate:
    return Estimate(
        low=hours * 3600 * (1 - spread),
        expected=hours * 3600,
        high=hours * 3600 * (1 + spread),
        basis=Basis.PREDICTED,
    )


def outcome_of(
    one: SpotJob, offer: Offer = SPOT, count: int = 1, on_demand: Offer | None = None
) -> SpotOutcome:
    times = spot_times(one, work(one.work_s / 3600))
    assert times is not None
    return spot_outcome(one, times, offer, count, on_demand)


@given(rate=st.floats(0, 3), tail=st.sampled_from([0.05, 0.25]))
@settings(max_examples=30, deadline=None)
def test_means_lie_within_their_intervals_and_wider_ones_hold_narrower(rate: float, tail: float) -> None:
    one = replace(job(rate_per_hour=rate), wait_s=600.0)
    found = spot_times(one, work(20, 0.1), tail_fraction=tail)
    wider = spot_times(one, work(20, 0.1), tail_fraction=tail / 2)
    quick = mean_times(one, work(20, 0.1))
    assert found is not None
    assert wider is not None
    assert quick is not None
    for name in ("held_s", "wall_s"):
        inner, outer = getattr(found, name), getattr(wider, name)
        assert outer.low <= inner.low <= inner.expected <= inner.high <= outer.high
        assert inner.expected == outer.expected == getattr(quick, name).expected


def test_fewer_bins_say_nearly_the_same() -> None:
    one = replace(job(rate_per_hour=0.2), wait_s=1800.0)
    fine, coarse = (
        spot_times(one, work(20, 0.1), deadline_s=25 * 3600, bin_count=count) for count in (4096, 1024)
    )
    assert fine is not None
    assert coarse is not None
    assert coarse.held_s.high == pytest.approx(fine.held_s.high, rel=2e-3)
    assert coarse.wall_s.high == pytest.approx(fine.wall_s.high, rel=5e-3)
    assert coarse.miss_probability == pytest.approx(fine.miss_probability, abs=5e-3)


def test_a_certain_run_without_interruptions_costs_its_hours() -> None:
    found = outcome_of(job(rate_per_hour=0.0), count=2, on_demand=ON_DEMAND)
    hours = (240 + 72_000 + 30) / 3600
    assert found.cost_usd.expected == pytest.approx(hours * 0.9 * 2, rel=1e-4)
    assert found.break_even_discount_fraction == pytest.approx(0.0, abs=1e-4)
    assert found.discount_fraction == 0.75
    assert found.pays


def test_at_the_break_even_discount_both_cost_the_same() -> None:
    one = job(rate_per_hour=2.0)
    found = outcome_of(one, on_demand=ON_DEMAND)
    assert found.break_even_discount_fraction is not None
    even = replace(SPOT, price_usd_per_hour=3.6 * (1 - found.break_even_discount_fraction))
    at_even = outcome_of(one, even)
    assert at_even.cost_usd.expected == pytest.approx(on_demand_held_s(one) / 3600 * 3.6, rel=1e-3)


def test_at_the_break_even_rate_both_take_the_same_dollars() -> None:
    one = job()
    rate = break_even_rate_per_s(one, on_demand_held_s(one) / 0.5)
    assert rate is not None
    at_rate = replace(one, interruptions_per_s=rate)
    held_s = means(at_rate, best_interval_s(at_rate)).held_s
    assert held_s * 0.5 == pytest.approx(on_demand_held_s(one), rel=1e-3)
    assert break_even_rate_per_s(one, on_demand_held_s(one) * 0.9) is None


def test_the_chance_of_missing_falls_with_the_deadline() -> None:
    one = replace(job(), wait_s=1800.0)
    chances = []
    for hours in (20, 24, 30, 45, 80):
        found = spot_times(one, work(20, 0.05), deadline_s=hours * 3600)
        assert found is not None
        assert found.miss_probability is not None
        chances.append(found.miss_probability)
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.99
    assert chances[-1] < 0.02


def test_without_a_deadline_there_is_no_chance_of_missing_it() -> None:
    found = outcome_of(job())
    assert found.times.miss_probability is None
    assert found.pays is None


def test_a_run_that_makes_no_headway_has_no_outcome() -> None:
    one = job(rate_per_hour=2000.0)
    assert spot_times(one, work(20)) is None
    assert mean_times(one, work(20)) is None


def test_saving_aside_pays_unless_it_is_durable_late() -> None:
    one = job(rate_per_hour=2.0)
    waiting = SaveCost.synchronous(60.0)
    soon = SaveCost(stall_s=2.0, durable_s=70.0)
    late = SaveCost(stall_s=50.0, durable_s=3000.0)
    assert best_saving(one, [waiting, soon]) == soon
    assert best_saving(one, [waiting, late]) == waiting


def test_started_blocks_add_half_a_block_unless_instances_live_shorter_than_one() -> None:
    offer = replace(SPOT, billing_increment_s=60)
    assert rounding_per_holding_s(job(rate_per_hour=0.0), offer) == 30.0
    assert rounding_per_holding_s(job(rate_per_hour=0.5), offer) == pytest.approx(30.0, rel=0.01)
    hourly = replace(SPOT, billing_increment_s=3600)
    # of exponential lifetimes with mean one hour: 1 / (1 - 1/e) hours are billed on average
    assert rounding_per_holding_s(job(rate_per_hour=1.0), hourly) == pytest.approx(0.58198 * 3600, rel=1e-4)


def test_on_demand_pays_a_save_each_interval_and_one_at_the_end() -> None:
    one = job()
    interval_s = one.work_s / 4
    without_s = one.restart.first_s + one.work_s
    assert on_demand_held_s(one) == pytest.approx(without_s + one.saving.stall_s)
    assert on_demand_held_s(one, interval_s) == pytest.approx(without_s + 4 * one.saving.stall_s)
