"""The whole bill, term by term."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.gpus import GIB
from catalogs.providers import load_egress
from planner.cost.bill.allin import all_in_bill, bill_of, interrupted_terms
from planner.cost.bill.ancillary_costs import storage_terms
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.cost.bill.energy import run_energy
from planner.cost.defaults import STORAGE_USD_PER_GIB_MONTH
from planner.cost.hours import billed_s
from planner.cost.spot.outcome import spot_outcome, spot_times
from planner.errors import PlannerError
from planner.estimate.values import Basis, Estimate
from tests.builders import make_estimate, make_offer
from tests.planner.cost.spot.test_interval import job

EGRESS = load_egress()
HOUR = make_estimate(3600.0, 0.1)

seconds = st.floats(0, 1e5)
parameters = st.builds(
    CostAssumptions,
    provisioning_s=seconds,
    set_up_s=seconds,
    compile_s=seconds,
    start_up_s=seconds,
    evaluation_s=seconds,
    checkpoint_stall_s=st.floats(0, 1e3),
    checkpoint_interval_s=st.none() | st.floats(60, 1e5),
    data_bytes=st.none() | st.integers(0, 10**15),
    data_from=st.sampled_from([None, "aws", "gcp", "gcp/us-central1", "nebius/us-central1", "unheard-of"]),
    transfer_count=st.floats(0, 5),
    checkpoint_bytes=st.none() | st.integers(0, 10**12),
    storage_usd_per_gib_month=st.none() | st.floats(0, 1),
    sweep_usd=st.none() | st.floats(0, 100),
)


@given(
    parameters=parameters,
    training_s=st.floats(1, 1e6),
    price=st.floats(0.01, 300),
    count=st.integers(1, 8),
    increment=st.sampled_from([1, 60, 600, 3600]),
)
def test_terms_add_up_to_the_rent_of_whole_blocks_and_the_rest(
    parameters: CostAssumptions, training_s: float, price: float, count: int, increment: int
) -> None:
    offer = make_offer(price_usd_per_hour=price, billing_increment_s=increment)
    training = make_estimate(training_s, 0.2)
    bill = all_in_bill(offer, count, training, parameters, EGRESS)
    rest = {"data transfer", "data storage", "checkpoint storage", "sweep"}
    for end in ("low", "expected", "high"):
        rent_usd = billed_s(offer, getattr(bill.held_s, end)) * price * count / 3600
        rest_usd = [getattr(one, f"{end}_usd") for one in bill.breakdown.terms if one.name in rest]
        total_usd = getattr(bill.breakdown.total_usd, end)
        assert total_usd == pytest.approx(math.fsum([rent_usd, *rest_usd]), rel=1e-9, abs=1e-9)
        assert total_usd == math.fsum(getattr(one, f"{end}_usd") for one in bill.breakdown.terms)
    assert len({one.name for one in bill.breakdown.terms}) == len(bill.breakdown.terms)
    assert all(one.formula for one in bill.breakdown.terms)


def test_every_term_by_hand() -> None:
    offer = make_offer(price_usd_per_hour=3.6, billing_increment_s=600)  # a tenth of a cent per second
    bill = all_in_bill(
        offer,
        1,
        Estimate(low=1000, expected=1000, high=1000, basis=Basis.MEASURED),
        CostAssumptions(
            provisioning_s=300,
            set_up_s=60,
            compile_s=40,
            start_up_s=10,
            evaluation_s=40,
            checkpoint_stall_s=5,
            checkpoint_interval_s=300,
            data_bytes=200 * GIB,
            data_from="aws",
            checkpoint_bytes=GIB,
            sweep_usd=1.5,
        ),
        EGRESS,
    )
    held_s = 300 + 60 + 40 + 10 + 1000 + 40 + 4 * 5
    months = held_s / (730 * 3600)
    assert {one.name: one.expected_usd for one in bill.breakdown.terms} == pytest.approx(
        {
            "provisioning": 0.3,
            "set-up": 0.06,
            "start-up": 0.01,
            "compilation": 0.04,
            "training": 1.0,
            "evaluation": 0.04,
            "checkpoints": 0.02,
            "minimum billing unit": (1800 - held_s) / 1000,
            "data transfer": 9.0,  # 100 of the 200 GiB are free
            "data storage": 200 * 0.023 * months,
            "checkpoint storage": 2 * 0.023 * months,
            "sweep": 1.5,
        }
    )
    assert bill.held_s.expected == held_s
    assert bill.not_counted == ()
    formula = next(one.formula for one in bill.breakdown.terms if one.name == "data transfer")
    assert "aws to internet" in formula


def test_a_stated_egress_price_holds_wherever_the_data_goes() -> None:
    for provider in (None, "aws", "basement"):
        one = CostAssumptions(
            data_bytes=100 * GIB, data_from=provider, egress_usd_per_gib=0.05, transfer_count=2
        )
        bill = all_in_bill(make_offer(), 1, make_estimate(3600.0), one, EGRESS)
        (term,) = [one for one in bill.breakdown.terms if one.name == "data transfer"]
        assert term.expected_usd == pytest.approx(10.0)
        assert term.formula == "size of the data set x 2.00 starts x 0.05 USD per GiB; price: stated by you"
        assert not any("data transfer" in one for one in bill.not_counted)


def test_what_is_unknown_is_named_and_not_charged() -> None:
    bill = all_in_bill(make_offer(), 1, HOUR, CostAssumptions())
    assert {one.name for one in bill.breakdown.terms} == {"provisioning", "training"}
    assert [one.partition(":")[0] for one in bill.not_counted] == [
        "data set",
        "checkpoint storage",
        "set-up",
        "sweep",
    ]


def test_a_place_without_egress_price_is_named() -> None:
    bill = all_in_bill(
        make_offer(),
        1,
        HOUR,
        CostAssumptions(data_bytes=GIB, data_from="basement", sweep_usd=0.0),
        EGRESS,
    )
    assert "data transfer: no egress price of basement to internet is known" in bill.not_counted


@given(
    rate=st.floats(0, 3),
    evaluation_s=seconds,
    increment=st.sampled_from([1, 60, 3600]),
    spread=st.floats(0, 0.5),
)
@settings(max_examples=30, deadline=None)
def test_the_terms_of_spot_add_up_to_its_rent(
    rate: float, evaluation_s: float, increment: int, spread: float
) -> None:
    one = job(rate_per_hour=rate, work_s=72_000 + evaluation_s)
    offer = make_offer(billing_increment_s=increment)
    training = make_estimate(72_000, spread)
    ends = [getattr(training, end) + evaluation_s for end in ("low", "expected", "high")]
    times = spot_times(one, Estimate(low=ends[0], expected=ends[1], high=ends[2], basis=training.basis))
    assert times is not None
    outcome = spot_outcome(one, times, offer, 2)
    known = CostAssumptions(
        provisioning_s=one.restart.provisioning_s,
        evaluation_s=evaluation_s,
        checkpoint_stall_s=one.saving.stall_s,
        checkpoint_interval_s=times.interval_s,
    )
    rent = interrupted_terms(offer, 2, training, known, outcome.cost_usd, outcome.rounding_s)
    bill = bill_of(offer, rent, times.wall_s, replace(known, sweep_usd=2.0))
    assert [one.name for one in bill.breakdown.terms][-1] == "sweep"
    for end in ("low", "expected", "high"):
        assert getattr(bill.breakdown.run_usd, end) == pytest.approx(getattr(outcome.cost_usd, end), rel=1e-3)
        assert all(getattr(one, f"{end}_usd") >= 0 for one in rent)
    lost = [one.expected_usd for one in rent if one.name == "interruptions"]
    restarts_s = times.means.starting_s - one.restart.first_s
    lost_usd = (times.means.lost_s + restarts_s) * 2 * offer.price_usd_per_hour / 3600
    assert sum(lost) == pytest.approx(lost_usd, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", ["set_up_s", "data_bytes", "checkpoint_interval_s"])
def test_what_no_run_can_have_is_refused(name: str) -> None:
    with pytest.raises(PlannerError, match=name):
        CostAssumptions(**{name: -1})  # type: ignore[arg-type]


def test_energy_is_power_times_devices_times_time() -> None:
    found = run_energy(300.0, 8, make_estimate(3600.0), overhead_factor=1.5, grid_g_per_kwh=400.0)
    assert found is not None
    assert found.energy_j.expected == 300 * 8 * 3600 * 1.5
    assert found.co2_kg is not None
    assert found.co2_kg.expected == pytest.approx(3.6 * 0.4)
    assert found.formula == "measured power x devices x time held x 1.5"
    alone = run_energy(300.0, 1, HOUR)
    assert alone is not None
    assert alone.co2_kg is None
    assert alone.formula == "measured power x devices x time held"


@pytest.mark.parametrize(
    ("price", "source"), [(STORAGE_USD_PER_GIB_MONTH, "price: S3 Standard"), (0.5, "price: stated by you")]
)
def test_storage_says_whose_price_it_is(price: float, source: str) -> None:
    assumed = CostAssumptions(data_bytes=GIB, storage_usd_per_gib_month=price)
    (term,) = storage_terms(HOUR, assumed)
    assert (term.name, term.formula.endswith(source)) == ("data storage", True)


def test_without_measured_power_there_is_no_energy() -> None:
    assert run_energy(None, 8, HOUR, grid_g_per_kwh=400.0) is None


def test_an_impossible_overhead_is_refused() -> None:
    with pytest.raises(PlannerError, match="overhead factor"):
        run_energy(300.0, 8, HOUR, overhead_factor=0.5)


def test_the_price_is_dated_in_the_formula() -> None:
    offer = make_offer(as_of=date(2026, 1, 2), source="a list")
    bill = all_in_bill(offer, 1, HOUR, CostAssumptions())
    assert "a list, 2026-01-02" in next(one.formula for one in bill.breakdown.terms if one.name == "training")
