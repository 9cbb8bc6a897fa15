"""What providers charge for data that leaves them."""

from __future__ import annotations

from datetime import date

import pytest

from catalogs.egress import (
    Destination,
    EgressPrice,
    destination_of,
    find_egress,
)
from catalogs.errors import CatalogError
from catalogs.gpus import GIB, load_gpus
from catalogs.providers import load_egress, parse_providers

PRICES = load_egress()
HEADER = "name,egress_internet_usd_per_gib,egress_source,egress_as_of"


@pytest.mark.parametrize("price", PRICES, ids=lambda one: f"{one.provider} to {one.destination}")
def test_every_shipped_price_is_believable(price: EgressPrice) -> None:
    assert price.source
    assert date(2025, 1, 1) < price.as_of <= date(2026, 11, 21)
    per_gib = [one.usd_per_gib for one in price.tiers]
    assert per_gib == sorted(per_gib, reverse=True)
    assert 0 <= per_gib[0] <= 0.25
    assert price.usd(0) == 0


def test_prices_are_unique() -> None:
    keys = [(one.provider, one.destination) for one in PRICES]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("gib", "usd"),
    [
        (100, 0.0),
        (101, 0.09),
        (10_240, 10_140 * 0.09),
        (60_000, 10_140 * 0.09 + 40_960 * 0.085 + 8_800 * 0.07),
    ],
)
def test_aws_by_tier_after_the_free_allowance(gib: int, usd: float) -> None:
    price = find_egress(PRICES, "AWS", Destination.INTERNET)
    assert price is not None
    assert price.usd(gib * GIB) == pytest.approx(usd)


def test_an_unknown_provider_has_no_price() -> None:
    assert find_egress(PRICES, "basement", Destination.INTERNET) is None


@pytest.mark.parametrize(
    ("data", "instances", "expected"),
    [
        (("aws", "us-east-1"), ("aws", "us-east-1"), Destination.SAME_REGION),
        (("aws", "us-east-1"), ("aws", "us-west-2"), Destination.OTHER_REGION),
        (("aws", None), ("aws", "us-west-2"), Destination.OTHER_REGION),
        (("aws", "us-east-1"), ("gcp", "us-east-1"), Destination.INTERNET),
    ],
)
def test_the_way_follows_from_both_ends(
    data: tuple[str, str | None], instances: tuple[str, str], expected: Destination
) -> None:
    assert destination_of(*data, *instances) is expected


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("moon,x,2026-01-01", "egress_internet_usd_per_gib: 'moon' is not dollars per GiB, or rising tiers"),
        ("1 above 5,x,2026-01-01", "egress_internet_usd_per_gib: '1 above 5' is not dollars"),
        ("2; 1 above 0,x,2026-01-01", "egress_internet_usd_per_gib: '2; 1 above 0' is not dollars"),
        ("-1,x,2026-01-01", "egress_internet_usd_per_gib: '-1' is not dollars"),
        ("1,x,", "egress_as_of: '' is not a date"),
        ("1,,2026-01-01", "egress_source: '' is not a text"),
    ],
)
def test_a_bad_cell_is_named_by_file_line_and_field(cells: str, message: str) -> None:
    with pytest.raises(CatalogError, match="p.csv, line 2, field " + message):
        parse_providers([HEADER, f"acme,{cells}"], "p.csv", load_gpus())
