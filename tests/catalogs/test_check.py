"""What a suspect price table is found guilty of."""

import csv
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from catalogs.check import Rule, check_jumps, check_offers, quarantine
from catalogs.gpus import GIB, Link, load_gpus
from catalogs.offers import Offer, Pricing, load_offers
from tests.builders import make_offer

PRICES = Path(__file__).parents[2].parent / "shared" / "data" / "prices"
GPUS = load_gpus()
SHIPPED = load_offers()
TODAY = date(2026, 11, 21)
H100 = make_offer(gpu="H100-SXM5-80GB", price_usd_per_hour=3.0, instance_type="h100")


def rules(*offers: Offer) -> list[Rule]:
    return [one.rule for one in check_offers(offers, GPUS, TODAY, reference=SHIPPED)]


def test_a_sound_offer_has_no_finding() -> None:
    assert rules(H100, replace(H100, pricing=Pricing.SPOT, price_usd_per_hour=1.0)) == []


@pytest.mark.parametrize(
    ("offer", "rule"),
    [
        (replace(H100, price_usd_per_hour=0.01), Rule.PRICE),
        (replace(H100, price_usd_per_hour=0.10), Rule.PRICE),
        (replace(H100, price_usd_per_hour=2200.0), Rule.PRICE),  # a month's price
        (replace(H100, gpu="H100-SXM9-80GB"), Rule.UNKNOWN_GPU),
        (replace(H100, vcpus=1000, memory_bytes=2000 * GIB), Rule.HOST),
        (replace(H100, vcpus=2, memory_bytes=1 * GIB), Rule.HOST),
        (replace(H100, gpu_link=Link.NVLINK), Rule.LINK),
        (replace(H100, gpu_count=2, gpu_link=Link.NONE), Rule.LINK),
        (make_offer(gpu_count=2, vcpus=16, gpu_link=Link.NVLINK, price_usd_per_hour=1.4), Rule.LINK),
        (replace(H100, as_of=date(2027, 1, 1)), Rule.DATE),
        (make_offer(gpu="CPU-X86-64", vcpus=8, price_usd_per_hour=0.001), Rule.PRICE),
        (make_offer(gpu="RTX-4080-16GB", price_usd_per_hour=0.01), Rule.PRICE),  # no median: the floor holds
    ],
)
def test_one_thing_wrong_is_one_finding(offer: Offer, rule: Rule) -> None:
    assert rules(offer) == [rule]


def test_a_finding_says_which_row_and_why() -> None:
    (finding,) = check_offers([replace(H100, price_usd_per_hour=0.01)], GPUS, TODAY, reference=SHIPPED)
    assert str(finding) == (
        "gcp h100 us-central1 on-demand: implausible price: 0.01 dollars for an hour of a H100-SXM5-80GB"
    )


def test_both_sides_of_spot_above_on_demand_are_suspect() -> None:
    spot = replace(H100, pricing=Pricing.SPOT, price_usd_per_hour=3.5)
    checked = quarantine([H100, spot], GPUS, TODAY, reference=SHIPPED)
    assert checked.offers == ()
    assert [one.rule for one in checked.findings] == [Rule.SPOT_ABOVE_ON_DEMAND] * 2
    assert checked.findings[0].detail == "3.5 dollars per hour against 3 on demand"


def test_another_regions_on_demand_price_does_not_count() -> None:
    assert rules(H100, replace(H100, pricing=Pricing.SPOT, price_usd_per_hour=3.5, region="elsewhere")) == []


def test_the_second_of_two_equal_rows_is_a_duplicate() -> None:
    again = replace(H100, price_usd_per_hour=2.9)
    checked = quarantine([H100, again], GPUS, TODAY, reference=SHIPPED)
    assert checked.offers == (H100,)
    assert [one.rule for one in checked.findings] == [Rule.DUPLICATE]


@pytest.mark.parametrize(("factor", "count"), [(5.1, 1), (0.19, 1), (4.9, 0), (0.56, 0)])
def test_a_jump_is_more_than_five_times_either_way(factor: float, count: int) -> None:
    now = replace(H100, price_usd_per_hour=H100.price_usd_per_hour * factor)
    assert len(check_jumps([now], [H100])) == count


def test_a_jump_needs_a_previous_price_of_the_same_offer() -> None:
    assert check_jumps([replace(H100, price_usd_per_hour=300.0)], [replace(H100, region="b")]) == ()


def test_shipped_prices_agree_with_the_newer_public_sample() -> None:
    """Same instance type, same price: what differs would be a slip of ours."""
    table = PRICES / "skypilot_sample.csv"
    if not table.is_file():
        pytest.skip("needs ../shared/data/prices")
    ours = {(one.provider, one.instance_type, one.pricing): one for one in SHIPPED}
    compared = 0
    with table.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            mine = ours.get((row["cloud"], row["instance_type"], Pricing.ON_DEMAND))
            if mine is None:
                continue
            compared += 1
            assert mine.price_usd_per_hour == pytest.approx(float(row["price_usd_h"]))
            assert mine.gpu_count == int(row["gpu_count"])
            if row["instance_type"] != "n3-H100-SXM5x8":  # its RAM differs between regions
                assert (mine.vcpus, mine.memory_bytes) == (int(row["vcpus"]), int(row["memory_gib"]) * GIB)
    assert compared > 50
