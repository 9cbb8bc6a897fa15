"""The shipped offers, row by row, and the user's own prices laid over them."""

from collections import Counter
from dataclasses import replace
from datetime import date

import pytest

from catalogs.check import Rule, check_offers
from catalogs.errors import CatalogError
from catalogs.gpus import DeviceKind, Link, load_gpus
from catalogs.offers import (
    ASSUMED_MEMORY_BYTES_PER_GPU,
    ASSUMED_VCPUS_PER_GPU,
    Offer,
    Pricing,
    apply_prices,
    load_offers,
    parse_offers,
)
from tests.builders import make_offer

GPUS = load_gpus()
OFFERS = load_offers()
TODAY = date(2026, 11, 21)
H100 = "H100-SXM5-80GB"


@pytest.fixture(params=OFFERS, ids=lambda one: "/".join(map(str, one.key)))
def offer(request: pytest.FixtureRequest) -> Offer:
    row = request.param
    assert isinstance(row, Offer)
    return row


def test_the_table_is_broad_enough() -> None:
    assert len(OFFERS) >= 150
    assert len({one.provider for one in OFFERS}) >= 8
    assert {one.gpu_count for one in OFFERS} >= {1, 2, 4, 8}
    assert Counter(one.pricing for one in OFFERS)[Pricing.SPOT] >= 50
    cpu = [one for one in OFFERS if GPUS[one.gpu].kind is DeviceKind.CPU]
    assert len({one.provider for one in cpu}) >= 4
    assert {one.vcpus for one in cpu} >= {2, 4, 8, 16, 32}


def test_no_shipped_row_is_suspect() -> None:
    assert [str(one) for one in check_offers(OFFERS, GPUS, TODAY)] == []


def test_a_shipped_row_is_complete(offer: Offer) -> None:
    assert offer.gpu in GPUS
    assert offer.region
    assert offer.price_usd_per_hour > 0
    assert offer.as_of <= TODAY
    assert len(offer.source) > 20
    assert offer.billing_increment_s in {1, 60, 600, 3600}
    assert offer.network_bytes_per_s is None or 1e8 <= offer.network_bytes_per_s <= 1e12
    assert (offer.gpu_link is Link.NONE) == (offer.gpu_count == 1)


def test_only_spot_has_an_interruption_rate(offer: Offer) -> None:
    if offer.interruption_rate_per_hour is not None:
        assert offer.pricing is Pricing.SPOT
        assert offer.provider == "aws"
        assert 3e-5 < offer.interruption_rate_per_hour < 4e-4


def test_a_price_per_accelerator_is_a_share_of_the_instance() -> None:
    assert make_offer(gpu_count=8, price_usd_per_hour=24.0).price_usd_per_gpu_hour == 3.0


def only(offers: tuple[Offer, ...], gpu: str, pricing: Pricing = Pricing.ON_DEMAND) -> list[Offer]:
    return [one for one in offers if one.gpu == gpu and one.pricing is pricing]


def test_an_own_price_replaces_every_on_demand_price_of_that_gpu() -> None:
    priced = apply_prices(OFFERS, {H100: 2.10}, TODAY)
    assert len(only(priced, H100)) == len(only(OFFERS, H100))
    for one in only(priced, H100):
        assert one.price_usd_per_hour == pytest.approx(2.10 * one.gpu_count)
        assert (one.source, one.as_of) == ("your own price", TODAY)


def test_an_own_price_leaves_other_gpus_alone() -> None:
    priced = apply_prices(OFFERS, {H100: 2.10}, TODAY)
    assert [one for one in priced if one.gpu != H100] == [one for one in OFFERS if one.gpu != H100]


def test_spot_above_the_own_price_is_dropped_and_cheaper_spot_stays() -> None:
    cheap = make_offer(pricing=Pricing.SPOT, price_usd_per_hour=0.20, region="a")
    dear = make_offer(pricing=Pricing.SPOT, price_usd_per_hour=0.60, region="b")
    full = make_offer(price_usd_per_hour=0.70)
    assert apply_prices([cheap, dear, full], {"L4-24GB": 0.40}, TODAY) == (
        cheap,
        replace(full, price_usd_per_hour=0.40, source="your own price", as_of=TODAY),
    )


def test_a_gpu_that_nobody_rents_singly_gets_an_own_offer() -> None:
    eight = make_offer(gpu=H100, gpu_count=8, gpu_link=Link.NVLINK, price_usd_per_hour=30.0)
    priced = apply_prices([eight], {H100: 2.0}, TODAY)
    assert [(one.provider, one.gpu_count, one.price_usd_per_hour) for one in priced] == [
        ("gcp", 8, 16.0),
        ("own", 1, 2.0),
    ]
    (own,) = apply_prices([], {"RTX-4080-16GB": 0.3}, TODAY)
    assert (own.provider, own.region, own.pricing, own.as_of) == ("own", "any", Pricing.ON_DEMAND, TODAY)
    assert check_offers([own], GPUS, TODAY) == ()


def test_a_cpu_class_is_priced_by_the_vcpu() -> None:
    small = make_offer(gpu="CPU-X86-64", vcpus=2, price_usd_per_hour=0.1)
    assert apply_prices([small], {"CPU-X86-64": 0.03}, TODAY)[0].price_usd_per_hour == pytest.approx(0.06)


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
def test_an_own_price_must_be_a_price(price: float) -> None:
    with pytest.raises(CatalogError, match="is not a positive number of dollars per hour"):
        apply_prices(OFFERS, {H100: price})


def test_an_own_price_needs_a_catalog_name() -> None:
    with pytest.raises(CatalogError, match="price of GPU 'H100': not a catalog name"):
        apply_prices(OFFERS, {"H100": 2.0})


def test_a_row_with_the_mandatory_columns_only_gets_the_documented_defaults() -> None:
    text = "provider,instance_type,gpu,gpu_count,price_usd_per_hour\nOwn,box,a100-sxm4-80gb,4,6.5\n"
    (one,) = parse_offers(text.splitlines(), "mine.csv", GPUS, TODAY)
    assert one == Offer(
        provider="own",
        instance_type="box",
        region="any",
        pricing=Pricing.ON_DEMAND,
        gpu="A100-SXM4-80GB",
        gpu_count=4,
        vcpus=4 * ASSUMED_VCPUS_PER_GPU,
        memory_bytes=4 * ASSUMED_MEMORY_BYTES_PER_GPU,
        gpu_link=Link.NVLINK,
        network_bytes_per_s=None,
        price_usd_per_hour=6.5,
        billing_increment_s=1,
        source="mine.csv",
        as_of=TODAY,
        interruption_rate_per_hour=None,
    )


def test_units_of_the_columns() -> None:
    text = (
        "provider,instance_type,gpu,gpu_count,price_usd_per_hour,vcpus,memory_gib,network_gbit_per_s,pricing\n"
        "own,i,L4,1,1,4,16,10,Spot\n"
    )
    (one,) = parse_offers(text.splitlines(), "t.csv", GPUS)
    assert (one.memory_bytes, one.network_bytes_per_s, one.pricing) == (16 << 30, 1.25e9, Pricing.SPOT)
    assert one.as_of == date.today()


def test_spot_rules_hold_between_the_shipped_rows() -> None:
    """The check sees it when they do not: a test of the test above."""
    spot = next(one for one in OFFERS if one.pricing is Pricing.SPOT)
    dear = replace(spot, price_usd_per_hour=spot.price_usd_per_hour * 7)
    table = [dear if one is spot else one for one in OFFERS]
    assert {one.rule for one in check_offers(table, GPUS, TODAY)} == {Rule.SPOT_ABOVE_ON_DEMAND}
