"""One row says all of a provider: every shipped row, what a bad one is told, and that none is missing."""

from __future__ import annotations

import re
from datetime import date

import pytest

from catalogs.errors import CatalogError
from catalogs.gpus import load_gpus
from catalogs.offers import load_offers, parse_offers
from catalogs.providers import COLUMNS, Provider, load_providers, parse_providers

PROVIDERS = load_providers()
GPUS = load_gpus()
TODAY = date(2026, 11, 22)
ROW = {
    "name": "acme",
    "billing_increment_s": "60",
    "billing_source": "acme.example",
    "billing_as_of": "2026-10-01",
}


def table(**cells: str) -> list[str]:
    row = ROW | cells
    return [",".join(row), ",".join(f'"{cell}"' for cell in row.values())]


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_a_shipped_row_has_a_source_and_a_date_for_each_of_its_figures(provider: Provider) -> None:
    for fact in (provider.billing, provider.spot_notice):
        if fact is not None:
            assert 1 <= fact.seconds <= 3600
            assert len(fact.source) > 10
            assert date(2025, 1, 1) < fact.as_of <= TODAY
    assert {name.gpu for name in provider.accelerators} <= set(GPUS)
    for pattern in (provider.cpu_instance_types, provider.arm_instance_types):
        re.compile(pattern or "")
    for name in provider.accelerators:
        re.compile(name.instance_pattern)


def test_every_provider_with_a_shipped_price_has_a_row_with_a_billing_block() -> None:
    for offer in load_offers():
        assert PROVIDERS[offer.provider].billing is not None, offer.provider


def test_a_provider_without_a_billing_block_is_refused_and_not_billed_by_the_second() -> None:
    lines = ["provider,instance_type,gpu,gpu_count,price_usd_per_hour", "newcloud,box,L4-24GB,1,0.8"]
    with pytest.raises(CatalogError, match="line 2, field billing_increment_s: '' is not known of newcloud"):
        parse_offers(lines, "mine.csv", GPUS)


def test_a_price_of_a_known_provider_is_billed_as_that_provider_bills() -> None:
    lines = ["provider,instance_type,gpu,gpu_count,price_usd_per_hour", "verda,box,L4-24GB,1,0.8"]
    (offer,) = parse_offers(lines, "mine.csv", GPUS)
    assert offer.billing_increment_s == 600


def test_a_provider_that_keeps_data_only_rents_no_instance() -> None:
    lines = ["provider,instance_type,gpu,gpu_count,price_usd_per_hour", "wasabi,box,L4-24GB,1,0.8"]
    with pytest.raises(CatalogError, match="not known of wasabi"):
        parse_offers(lines, "mine.csv", GPUS)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"name": ""}, "field name: '' is not a text"),
        ({"billing_increment_s": "often"}, "field billing_increment_s: 'often' is not a number"),
        ({"billing_source": ""}, "field billing_source: '' is not a text"),
        ({"billing_as_of": "soon"}, "field billing_as_of: 'soon' is not a date"),
        ({"spot_notice_s": "30"}, "field spot_notice_source: '' is not a text"),
        ({"instance_types": "odd"}, "field instance_types: 'odd' is not one of same, host, spaced"),
        ({"accelerators": "H100"}, "field accelerators: 'H100' is not names such as H100=H100-SXM5-80GB"),
        ({"accelerators": "H100@(=L4-24GB"}, "field accelerators: 'H100@(=L4-24GB' is not"),
        ({"accelerators": "H100=H100"}, "field accelerators: 'H100=H100' is not"),
        ({"cpu_instance_types": "("}, r"field cpu_instance_types: '(' is not a pattern"),
        ({"egress_internet_usd_per_gib": "0.1"}, "field egress_source: '' is not a text"),
    ],
)
def test_a_bad_cell_is_named_by_file_line_and_field(cells: dict[str, str], message: str) -> None:
    with pytest.raises(CatalogError, match=re.escape(f"p.csv, line 2, {message}")):
        parse_providers(table(**cells), "p.csv", GPUS)


def test_a_name_stands_for_one_provider() -> None:
    with pytest.raises(CatalogError, match="line 3, field name: 'acme' is not unique"):
        parse_providers([*table(), table()[1]], "p.csv", GPUS)
    rows = [f"{line}{end}" for line, end in zip(table(), (",also_called", ","), strict=True)]
    rows.append(table()[1].replace("acme", "other", 1) + ",acme")
    with pytest.raises(CatalogError, match="line 3, field also_called: 'acme' is not unique"):
        parse_providers(rows, "p.csv", GPUS)


def test_every_column_is_used_by_a_shipped_row() -> None:
    assert set(ROW) <= set(COLUMNS)
    assert PROVIDERS["verda"].also_called == ("datacrunch",)
