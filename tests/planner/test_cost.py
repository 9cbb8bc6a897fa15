"""Dollars and hours, checked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.offers import Pricing
from planner.cost import (
    CostTerm,
    billed_s,
    device_usd_per_hour,
    held_usd,
    run_cost,
    run_duration_s,
    samples_within,
    sweep_term,
)
from planner.estimate.values import Basis, Estimate
from tests.builders import make_cpu, make_estimate, make_gpu, make_offer, make_target


def test_duration_is_provisioning_and_every_step() -> None:
    duration = run_duration_s(make_target(), make_estimate(0.5, 0.1, Basis.MEASURED))
    assert duration == Estimate(low=300 + 450, expected=300 + 500, high=300 + 550, basis=Basis.MEASURED)


def test_a_partial_last_step_costs_a_full_one() -> None:
    assert run_duration_s(make_target(samples=33), make_estimate(1.0), 0.0).expected == 2.0


def test_an_hour_at_a_dollar_on_two_instances_is_two_dollars() -> None:
    bill = run_cost(make_offer(price_usd_per_hour=1.0), 2, make_estimate(3600.0, 0.5), provisioning_s=360.0)
    assert [(term.name, term.low_usd, term.expected_usd, term.high_usd) for term in bill.terms] == [
        ("provisioning", 0.2, 0.2, 0.2),
        ("training", 0.8, 1.8, 2.8),
    ]
    assert bill.total_usd == Estimate(low=1.0, expected=2.0, high=3.0, basis=Basis.PREDICTED)


def test_a_started_block_is_billed_whole_and_said() -> None:
    hourly = make_offer(price_usd_per_hour=2.0, billing_increment_s=3600)
    bill = run_cost(hourly, 1, make_estimate(3601.0), provisioning_s=300.0)
    assert bill.total_usd.expected == 4.0
    assert bill.terms[1].formula.endswith("rounded up to blocks of 3600 s")


def test_exactly_one_block_is_not_two() -> None:
    assert billed_s(make_offer(billing_increment_s=60), 60 * (1 + 1e-15)) == 60.0


@given(
    step_s=st.floats(1e-4, 1e4),
    spread=st.floats(0.0, 0.9),
    price=st.floats(0.01, 200.0),
    increment=st.sampled_from([1, 60, 3600]),
    instances=st.integers(1, 8),
    spent=st.floats(0.0, 50.0),
)
def test_terms_add_up_exactly_and_bounds_keep_their_order(
    step_s: float, spread: float, price: float, increment: int, instances: int, spent: float
) -> None:
    offer = make_offer(price_usd_per_hour=price, billing_increment_s=increment)
    duration = run_duration_s(make_target(), make_estimate(step_s, spread))
    bill = run_cost(offer, instances, duration).plus(sweep_term(spent))
    total = bill.total_usd
    assert total.expected == math.fsum(term.expected_usd for term in bill.terms)
    assert total.low <= total.expected <= total.high
    held = price * instances / 3600 * billed_s(offer, duration.expected)
    assert total.expected == pytest.approx(held + spent)
    assert all(term.low_usd <= term.expected_usd <= term.high_usd for term in bill.terms)


def test_another_term_adds_to_the_total() -> None:
    bill = run_cost(make_offer(price_usd_per_hour=1.0), 1, make_estimate(3600.0))
    egress = CostTerm(name="egress", low_usd=1.0, expected_usd=2.0, high_usd=4.0, formula="GB x rate")
    total = bill.plus(egress).total_usd
    assert (total.low, total.expected, total.high) == pytest.approx((2.0, 3.0, 5.0))


def test_samples_that_the_deadline_leaves() -> None:
    target = make_target(budget_usd=None, deadline_s=400.0)
    assert samples_within(target, make_offer(), 1, step_time_s=1.0, provisioning_s=300.0) == 100 * 32


def test_samples_that_the_budget_leaves_counts_whole_blocks_and_the_sweep() -> None:
    offer = make_offer(price_usd_per_hour=1.0, billing_increment_s=3600)
    target = make_target(budget_usd=1.9)  # 0.4 is spent: one block of an hour is left, not one and a half
    samples = samples_within(target, offer, 1, step_time_s=33.0, provisioning_s=300.0, spent_usd=0.4)
    assert samples == 100 * 32


def test_no_sample_fits_into_less_than_provisioning() -> None:
    target = make_target(deadline_s=200.0)
    assert samples_within(target, make_offer(), 1, step_time_s=1.0, provisioning_s=300.0) == 0


def test_without_limits_all_samples_fit() -> None:
    target = make_target(budget_usd=None)
    assert samples_within(target, make_offer(), 1, step_time_s=1.0) == 32_000


def test_a_gpu_costs_its_share_of_the_cheapest_instance_on_demand() -> None:
    offers = [
        make_offer(price_usd_per_hour=1.0),
        make_offer(price_usd_per_hour=3.2, gpu_count=4),
        make_offer(price_usd_per_hour=0.1, pricing=Pricing.SPOT),
    ]
    assert device_usd_per_hour(offers, make_gpu()) == 0.8


def test_a_cpu_machine_costs_its_vcpus() -> None:
    cpu = make_cpu()
    offers = [make_offer(cpu.name, price_usd_per_hour=0.4, vcpus=8)]
    assert device_usd_per_hour(offers, cpu, vcpus=2) == pytest.approx(0.1)
    assert device_usd_per_hour(offers, cpu) is None


def test_an_unpriced_device_has_no_cost_rather_than_zero() -> None:
    rate = device_usd_per_hour([make_offer("H100-SXM5-80GB")], make_gpu())
    assert rate is None
    assert held_usd(60.0, 1, rate) is None


def test_a_trial_costs_the_time_it_held_its_devices() -> None:
    assert held_usd(90.0, 4, 2.0) == pytest.approx(0.2)
