"""Dollars, deadline and break-even of a run on spot."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.offers import Pricing
from planner.estimate.values import Basis, Estimate
from planner.spot.break_even import break_even_rate_per_s, on_demand_held_s
from planner.spot.interval import best_interval_s
from planner.spot.job import Saving, measured_restart
from planner.spot.outcome import (
    best_saving,
    rounding_per_holding_s,
    spot_outcome,
)
from planner.spot.segments import means
from tests.builders import make_measurement, make_offer
from tests.planner.spot.test_interval import job

ON_DEMAND = make_offer(price_usd_per_hour=3.6)
SPOT = replace(ON_DEMAND, pricing=Pricing.SPOT, price_usd_per_hour=0.9)


def work(hours: float, spread: float = 0.0) -> Estimate:
    return Estimate(
        low=hours * 3600 * (1 - spread),
        expected=hours * 3600,
        high=hours * 3600 * (1 + spread),
        basis=Basis.PREDICTED,
    )


@given(rate=st.floats(0, 3), count=st.sampled_from([1, 2, 8]), increment=st.sampled_from([1, 60, 3600]))
@settings(max_examples=30, deadline=None)
def test_the_terms_add_up_to_the_cost(rate: float, count: int, increment: int) -> None:
    offer = replace(SPOT, billing_increment_s=increment)
    found = spot_outcome(job(rate_per_hour=rate), offer, count, work_s=work(20, 0.1))
    assert found is not None
    for end in ("low", "expected", "high"):
        total = math.fsum(getattr(term, f"{end}_usd") for term in found.terms)
        assert total == pytest.approx(getattr(found.cost_usd, end), rel=1e-12)
    assert found.cost_usd.low <= found.cost_usd.expected <= found.cost_usd.high
    assert found.wall_s.low <= found.wall_s.expected <= found.wall_s.high


def test_a_certain_run_without_interruptions_costs_its_hours() -> None:
    found = spot_outcome(job(rate_per_hour=0.0), SPOT, 2, on_demand=ON_DEMAND)
    assert found is not None
    hours = (240 + 72_000 + 30) / 3600
    assert found.cost_usd.expected == pytest.approx(hours * 0.9 * 2, rel=1e-4)
    assert found.break_even_discount_fraction == pytest.approx(0.0, abs=1e-4)
    assert found.discount_fraction == 0.75
    assert found.pays


def test_at_the_break_even_discount_both_cost_the_same() -> None:
    one = job(rate_per_hour=2.0)
    found = spot_outcome(one, SPOT, 1, on_demand=ON_DEMAND)
    assert found is not None
    assert found.break_even_discount_fraction is not None
    even = replace(SPOT, price_usd_per_hour=3.6 * (1 - found.break_even_discount_fraction))
    at_even = spot_outcome(one, even, 1)
    assert at_even is not None
    assert at_even.cost_usd.expected == pytest.approx(on_demand_held_s(one) / 3600 * 3.6, rel=1e-3)


def test_at_the_break_even_rate_both_take_the_same_dollars() -> None:
    one = job()
    rate = break_even_rate_per_s(one, discount_fraction=0.5)
    at_rate = replace(one, interruptions_per_s=rate)
    assert means(at_rate, best_interval_s(at_rate)).held_s * 0.5 == pytest.approx(on_demand_held_s(one))


def test_the_chance_of_missing_falls_with_the_deadline() -> None:
    one = replace(job(), wait_s=1800.0)
    chances = []
    for hours in (20, 24, 30, 45, 80):
        found = spot_outcome(one, SPOT, 1, work_s=work(20, 0.05), deadline_s=hours * 3600)
        assert found is not None
        assert found.miss_probability is not None
        chances.append(found.miss_probability)
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.99
    assert chances[-1] < 0.02


def test_without_a_deadline_there_is_no_chance_of_missing_it() -> None:
    found = spot_outcome(job(), SPOT, 1)
    assert found is not None
    assert found.miss_probability is None
    assert found.pays is None


def test_a_run_that_makes_no_headway_has_no_outcome() -> None:
    assert spot_outcome(job(rate_per_hour=2000.0), SPOT, 1) is None


def test_saving_aside_pays_unless_it_is_durable_late() -> None:
    one = job(rate_per_hour=2.0)
    waiting = Saving.synchronous(60.0)
    soon = Saving(stall_s=2.0, durable_s=70.0)
    late = Saving(stall_s=50.0, durable_s=3000.0)
    assert best_saving(one, [waiting, soon]) == soon
    assert best_saving(one, [waiting, late]) == waiting


def test_a_restart_takes_what_the_start_of_a_trial_took() -> None:
    measurement = make_measurement(step_time_s=0.5, startup_s=20.0, first_step_s=30.5)
    restart = measured_restart(measurement, load_s=12.0, provisioning_s=100.0, set_up_s=5.0)
    assert restart.first_s == 100 + 5 + 20 + 30
    assert restart.total_s == restart.first_s + 12


def test_started_blocks_add_half_a_block_unless_instances_live_shorter_than_one() -> None:
    offer = replace(SPOT, billing_increment_s=60)
    assert rounding_per_holding_s(job(rate_per_hour=0.0), offer) == 30.0
    assert rounding_per_holding_s(job(rate_per_hour=0.5), offer) == pytest.approx(30.0, rel=0.01)
    hourly = replace(SPOT, billing_increment_s=3600)
    # of exponential lifetimes with mean one hour: 1 / (1 - 1/e) hours are billed on average
    assert rounding_per_holding_s(job(rate_per_hour=1.0), hourly) == pytest.approx(0.58198 * 3600, rel=1e-4)
