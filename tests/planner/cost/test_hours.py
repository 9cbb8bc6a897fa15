"""Dollars and hours, checked by hand."""

from __future__ import annotations

import pytest

from catalogs.offers import Pricing
from planner.cost.hours import (
    Breakdown,
    CostTerm,
    billed_s,
    device_usd_per_hour,
    held_usd,
    samples_within,
    sweep_term,
    training_s,
)
from planner.estimate.values import Basis, Estimate
from tests.builders import make_cpu, make_estimate, make_gpu, make_offer, make_target


def test_training_is_every_step_a_partial_last_one_included() -> None:
    found = training_s(make_target(samples=33), make_estimate(0.5, 0.1, Basis.MEASURED))
    assert found == Estimate(low=0.9, expected=1.0, high=1.1, basis=Basis.MEASURED)


def test_a_number_of_steps_that_is_not_sure_widens_the_training_time() -> None:
    target = make_target(samples=32 * 100, samples_low=32 * 50.0, samples_high=32 * 200.0)
    sure = training_s(target, Estimate(low=1.0, expected=1.0, high=1.0, basis=Basis.MEASURED))
    assert (sure.low, sure.expected, sure.high) == pytest.approx((50.0, 100.0, 200.0))
    both = training_s(target, Estimate(low=0.5, expected=1.0, high=2.0, basis=Basis.MEASURED))
    assert both.high == pytest.approx(100.0 * 2**2**0.5)  # halves in quadrature
    assert both.low == pytest.approx(100.0 / 2**2**0.5)


def test_a_bill_adds_up_and_tells_the_run_from_the_sweep() -> None:
    egress = CostTerm(name="egress", low_usd=1.0, expected_usd=2.0, high_usd=4.0, formula="GB x rate")
    bill = Breakdown(terms=(egress, sweep_term(0.5)), basis=Basis.PREDICTED)
    assert bill.total_usd == Estimate(low=1.5, expected=2.5, high=4.5, basis=Basis.PREDICTED)
    assert bill.run_usd == Estimate(low=1.0, expected=2.0, high=4.0, basis=Basis.PREDICTED)


def test_exactly_one_block_is_not_two() -> None:
    assert billed_s(make_offer(billing_increment_s=60), 60 * (1 + 1e-15)) == 60.0


def test_samples_that_the_deadline_leaves() -> None:
    target = make_target(budget_usd=None, deadline_s=400.0)
    assert samples_within(target, make_offer(), 1, step_time_s=1.0, start_s=300.0) == 100 * 32


def test_samples_that_the_budget_leaves_counts_whole_blocks_and_the_sweep() -> None:
    offer = make_offer(price_usd_per_hour=1.0, billing_increment_s=3600)
    target = make_target(budget_usd=1.9)  # 0.4 is spent: one block of an hour is left, not one and a half
    samples = samples_within(target, offer, 1, step_time_s=33.0, start_s=300.0, spent_usd=0.4)
    assert samples == 100 * 32


def test_a_budget_of_exactly_its_blocks_leaves_them_all_where_nothing_was_spent() -> None:
    offer = make_offer(price_usd_per_hour=0.3, billing_increment_s=3600)
    target = make_target(budget_usd=0.9)  # 0.9 / 0.3 is a little less than 3 in floating point
    samples = samples_within(target, offer, 1, step_time_s=100.0, start_s=300.0)
    assert samples == (3 * 3600 - 300) // 100 * 32


def test_no_sample_fits_into_less_than_provisioning() -> None:
    target = make_target(deadline_s=200.0)
    assert samples_within(target, make_offer(), 1, step_time_s=1.0, start_s=300.0) == 0


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
