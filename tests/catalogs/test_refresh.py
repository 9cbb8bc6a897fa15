"""Refreshing prices: faults stay with their provider, wrong prices are named, files are whole."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from catalogs.check import Rule
from catalogs.errors import CatalogError
from catalogs.gpus import Link, load_gpus
from catalogs.offers import Offer, Pricing, load_offers
from catalogs.refresh import offers_csv, refresh, stale, with_known_facts
from catalogs.sources.price_source import Imported, Skipped, Source
from catalogs.sources.skypilot import import_skypilot
from catalogs.sources.table import read_offers
from tests.builders import make_offer

GPUS = load_gpus()
SHIPPED = load_offers()
TODAY = date(2026, 11, 21)
YESTERDAY = TODAY - timedelta(days=1)
H100 = make_offer(
    gpu="H100-SXM5-80GB", provider="aws", instance_type="h100", price_usd_per_hour=4.0, as_of=YESTERDAY
)


def source(provider: str, *offers: Offer) -> Source:
    return Source(provider=provider, read=lambda: Imported(provider=provider, offers=offers, skipped=()))


def broken(provider: str, message: str) -> Source:
    def read() -> Imported:
        raise CatalogError(message)

    return Source(provider=provider, read=read)


def test_new_prices_replace_the_providers_old_ones() -> None:
    new = replace(H100, price_usd_per_hour=3.5, as_of=TODAY)
    gone = replace(H100, instance_type="retired")
    other = make_offer(provider="gcp")
    refreshed = refresh([source("aws", new)], [H100, gone, other], GPUS, TODAY)
    assert set(refreshed.offers) == {new, other}
    (outcome,) = refreshed.outcomes
    assert (outcome.provider, outcome.fault, outcome.offer_count) == ("aws", None, 1)


def test_one_providers_fault_does_not_blank_the_others_nor_itself() -> None:
    new = make_offer(provider="gcp", price_usd_per_hour=0.60, as_of=TODAY)
    before = [H100, make_offer(provider="gcp", price_usd_per_hour=0.72)]
    sources = [
        broken("aws", "https://example.invalid/aws/vms.csv: the server answers 503"),
        source("gcp", new),
    ]
    refreshed = refresh(sources, before, GPUS, TODAY)
    assert set(refreshed.offers) == {H100, new}
    assert [(one.provider, one.fault, one.offer_count) for one in refreshed.outcomes] == [
        ("aws", "https://example.invalid/aws/vms.csv: the server answers 503", 1),
        ("gcp", None, 1),
    ]


def test_an_empty_answer_is_a_fault() -> None:
    skipped = (Skipped(what="H100 (box)", reason="form factor", row_count=7),)
    empty = Source(provider="aws", read=lambda: Imported(provider="aws", offers=(), skipped=skipped))
    refreshed = refresh([empty], [H100], GPUS, TODAY)
    assert refreshed.offers == (H100,)
    assert refreshed.outcomes[0].fault == "its catalog holds no offer that can be used"
    assert refreshed.outcomes[0].skipped == skipped


def test_a_billing_block_that_is_known_of_an_instance_type_stays_its_own() -> None:
    bare_metal = make_offer(provider="oci", instance_type="BM.GPU.H100.8", billing_increment_s=3600)
    (refreshed,) = with_known_facts([replace(bare_metal, billing_increment_s=60, region="r-2")], [bare_metal])
    assert refreshed.billing_increment_s == 3600


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"price_usd_per_hour": 0.01}, Rule.PRICE),  # H100 at a cent
        ({"price_usd_per_hour": 4.0 * 5.5}, Rule.JUMP),
        ({"price_usd_per_hour": 4.0 / 5.5}, Rule.JUMP),
        ({"as_of": TODAY + timedelta(days=2)}, Rule.DATE),
    ],
)
def test_a_suspicious_price_is_named_and_the_old_one_stays(change: dict[str, object], rule: Rule) -> None:
    wrong = replace(H100, **{"as_of": TODAY, **change})  # type: ignore[arg-type]
    fine = replace(H100, region="eu", price_usd_per_hour=4.4, as_of=TODAY)
    refreshed = refresh([source("aws", wrong, fine)], [H100, *SHIPPED], GPUS, TODAY)
    mine = [one for one in refreshed.offers if one.provider == "aws"]
    assert sorted(mine, key=lambda one: one.region) == [fine, H100]
    assert rule in {one.rule for one in refreshed.outcomes[0].findings}
    assert all(one.offer == wrong for one in refreshed.outcomes[0].findings)


def test_spot_above_on_demand_is_quarantined_on_both_sides() -> None:
    """As SkyPilot's GCP rows of 2026 had it: H100 at 4.20 on demand (no list price) and 5.34 spot."""
    full = replace(H100, price_usd_per_hour=4.20, as_of=TODAY)
    spot = replace(full, pricing=Pricing.SPOT, price_usd_per_hour=5.34)
    fine = replace(full, region="eu")
    refreshed = refresh([source("aws", full, spot, fine)], [], GPUS, TODAY)
    assert refreshed.offers == (fine,)
    assert [one.rule for one in refreshed.outcomes[0].findings] == [Rule.SPOT_ABOVE_ON_DEMAND] * 2


def test_a_lasting_change_is_taken_over_once_the_old_price_has_aged() -> None:
    old = replace(H100, as_of=TODAY - timedelta(days=91))
    new = replace(H100, price_usd_per_hour=24.0, as_of=TODAY)
    assert refresh([source("aws", new)], [old, *SHIPPED], GPUS, TODAY).outcomes[0].findings == ()
    assert refresh([source("aws", new)], [H100, *SHIPPED], GPUS, TODAY).outcomes[0].findings != ()


def test_network_link_and_interruptions_are_taken_over_from_what_is_known() -> None:
    known = replace(
        H100, gpu_count=8, gpu_link=Link.NVLINK, network_bytes_per_s=4e11, interruption_rate_per_hour=2e-4
    )
    listed = replace(known, network_bytes_per_s=None, interruption_rate_per_hour=None, as_of=TODAY)
    elsewhere = replace(listed, region="eu")
    smaller = replace(listed, gpu_count=1, gpu_link=Link.NONE)
    one, two, three = with_known_facts([listed, elsewhere, smaller], [known])
    assert (one.network_bytes_per_s, one.interruption_rate_per_hour) == (4e11, 2e-4)
    assert (two.network_bytes_per_s, two.interruption_rate_per_hour) == (4e11, None)
    assert (three.network_bytes_per_s, three.gpu_link) == (None, Link.NONE)


def test_prices_age_by_kind() -> None:
    def aged(pricing: Pricing, days: int) -> Offer:
        return replace(H100, pricing=pricing, as_of=TODAY - timedelta(days=days), region=f"r{days}")

    fresh = [aged(Pricing.SPOT, 1), aged(Pricing.ON_DEMAND, 30)]
    assert stale(fresh, TODAY) == ()
    old = [aged(Pricing.SPOT, 2), aged(Pricing.SPOT, 9), aged(Pricing.ON_DEMAND, 31)]
    assert [str(one) for one in stale([*fresh, *old], TODAY)] == [
        "2 spot prices of aws are over 1 day old, the oldest 9 days (2026-11-12);"
        " `planner catalog refresh` fetches new ones",
        "1 on-demand prices of aws are over 30 days old, the oldest 31 days (2026-10-21);"
        " `planner catalog refresh` fetches new ones",
    ]


def test_what_is_written_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "offers.csv"
    path.write_text(offers_csv(SHIPPED))
    assert read_offers(path) == SHIPPED


def test_the_whole_way_from_a_server_to_a_table(published: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = published
    (folder / "lambda").mkdir()
    (folder / "lambda" / "vms.csv").write_text(
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
        "gpu_8x_h100_sxm5,H100,8.0,208.0,1800.0,30.0,us-east-1,,\n"
        "gpu_1x_h100_sxm5,H100,1.0,26.0,225.0,0.01,us-east-1,,\n"
    )
    sources = [
        Source(provider=cloud, read=lambda cloud=cloud: import_skypilot(address, cloud, GPUS, TODAY))  # type: ignore[misc]
        for cloud in ("lambda", "aws")
    ]
    refreshed = refresh(sources, SHIPPED, GPUS, TODAY)
    path = tmp_path / "offers.csv"
    path.write_text(offers_csv(refreshed.offers))
    offers = {one.key: one for one in read_offers(path)}
    key = ("lambda", "gpu_8x_h100_sxm5", "us-east-1", Pricing.ON_DEMAND)
    assert (offers[key].price_usd_per_hour, offers[key].as_of) == (30.0, TODAY)
    assert offers[*key[:1], "gpu_1x_h100_sxm5", *key[2:]].price_usd_per_hour == 4.29  # the price it had
    by_lambda, by_aws = refreshed.outcomes
    assert {one.rule for one in by_lambda.findings} == {Rule.PRICE}
    assert by_aws.fault is not None
    assert "404" in by_aws.fault
    assert by_aws.offer_count == sum(one.provider == "aws" for one in SHIPPED)
