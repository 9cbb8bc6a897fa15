"""Prices as the flags want them: refreshed tables, own prices, reserved rates."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from catalogs.errors import CatalogError
from catalogs.offers import Offer, load_offers
from catalogs.offers import Pricing as OfferPricing
from planner.__main__ import run
from planner.cli_values import OfferFlags
from planner.commands.price_table import cheapest_regions, refreshed_path, save_offers
from planner.commands.prices import read_prices
from planner.errors import PlannerError
from planner.exits import Exit
from tests.builders import make_offer

NOW = datetime.now(UTC)
TODAY = NOW.date()
VMS_HEADER = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"


@pytest.fixture(autouse=True)
def own_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def flags(**changes: Any) -> OfferFlags:
    return OfferFlags(**changes)


def on_demand(offers: tuple[Offer, ...], gpu: str) -> set[float]:
    return {
        round(one.price_usd_per_gpu_hour, 6)
        for one in offers
        if one.gpu == gpu and one.pricing is OfferPricing.ON_DEMAND
    }


def test_a_family_is_priced_whole_and_its_members_are_named() -> None:
    prices = read_prices(flags(prices=("H100=2.10",)))
    priced = [name for name in prices.gpus if name.startswith("H100") and on_demand(load_offers(), name)]
    assert len(priced) > 1
    for name in priced:
        assert on_demand(prices.offers, name) == {2.10}
    assert prices.notes == (f"Your price of $2.10/h for a GPU holds for {', '.join(priced)}",)
    assert on_demand(prices.offers, "A100-SXM4-80GB") == on_demand(load_offers(), "A100-SXM4-80GB")


def test_one_card_in_full_goes_before_its_family_in_either_order() -> None:
    for prices in (("H100=2.10", "H100-SXM5-80GB=1.90"), ("H100-SXM5-80GB=1.90", "H100=2.10")):
        offers = read_prices(flags(prices=prices)).offers
        assert on_demand(offers, "H100-SXM5-80GB") == {1.90}
        assert on_demand(offers, "H100-PCIE-80GB") == {2.10}


def test_a_family_makes_no_offer_of_a_card_that_nobody_rents_but_a_full_name_does(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    save_offers(table, [make_offer("H100-PCIE-80GB", 3.0)])
    offers = read_prices(flags(catalog=table, prices=("H100=2.10",))).offers
    assert [(one.gpu, one.price_usd_per_hour) for one in offers] == [("H100-PCIE-80GB", 2.10)]
    offers = read_prices(flags(catalog=table, prices=("H100-SXM5-80GB=$2.10",))).offers
    assert [one.provider for one in offers] == ["gcp", "own"]


def test_reserved_rates_of_the_users_table_are_admitted_when_asked_for(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(
        "provider,instance_type,gpu,gpu_count,price_usd_per_hour,pricing,billing_increment_s\n"
        "rack,node-1,H100-SXM5-80GB,8,9.6,reserved,3600\n"
        "rack,node-2,L4-24GB,1,0.3,,1\n"
    )
    without = read_prices(flags(catalog=table))
    assert [one.instance_type for one in without.admitted] == ["node-2"]
    assert without.filters.refusal(without.offers[0]) == "reserved, which was not asked for"
    withal = read_prices(flags(catalog=table, is_reserved=True))
    assert [one.instance_type for one in withal.admitted] == ["node-1", "node-2"]
    assert withal.offers[0].billing_increment_s == 3600


def test_of_a_refreshed_table_the_cheapest_regions_are_considered_unless_one_is_named() -> None:
    near = make_offer(price_usd_per_hour=0.8, region="near", as_of=TODAY)
    far = make_offer(price_usd_per_hour=0.7, region="far", as_of=TODAY)
    spot = make_offer(price_usd_per_hour=0.3, region="near", pricing=OfferPricing.SPOT, as_of=TODAY)
    save_offers(refreshed_path(), [near, far, spot])
    prices = read_prices(flags())
    assert prices.offers == (near, far, spot)
    assert set(prices.considered) == {far, spot} == set(cheapest_regions([near, far, spot]))
    assert prices.notes[0].startswith(f"Prices refreshed, the newest from {TODAY}: {refreshed_path()}")
    assert read_prices(flags(regions=("near",))).admitted == (near, spot)


def test_newer_shipped_prices_are_used_instead_of_an_old_refreshed_table() -> None:
    save_offers(refreshed_path(), [make_offer(as_of=date(2020, 1, 1))])
    assert read_prices(flags()).offers == load_offers()


def test_a_damaged_refreshed_table_says_what_to_do() -> None:
    refreshed_path().parent.mkdir(parents=True)
    refreshed_path().write_text("provider,gpu\n")
    with pytest.raises(CatalogError, match=r"offers\.csv.*`planner catalog refresh` writes the table anew"):
        read_prices(flags())


def test_refresh_reads_over_http_names_faults_and_wrong_prices_and_is_used_from_then_on(
    published: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, address = published
    (folder / "lambda").mkdir()
    (folder / "lambda" / "vms.csv").write_text(
        VMS_HEADER
        + "gpu_8x_h100_sxm5,H100,8.0,208.0,1800.0,30.0,us-east-1,,\n"
        + "gpu_1x_h100_sxm5,H100,1.0,26.0,225.0,0.01,us-east-1,,\n"
        + "gpu_1x_mystery,MI999,1.0,26.0,225.0,1.0,us-east-1,,\n"
    )
    refreshed_path().parent.mkdir(parents=True)
    refreshed_path().write_text("damaged")  # replaced, not a dead end
    code = run(["catalog", "refresh", "--skypilot", address, "--provider", "lambda", "--provider", "aws"])
    out = capsys.readouterr().out
    assert code == Exit.PLAN
    assert "aws: not read: " in out
    assert "404" in out
    assert "quarantined: lambda gpu_1x_h100_sxm5 us-east-1 on-demand: implausible price: 0.01 dollars" in out
    assert "left out: MI999 (gpu_1x_mystery): no accelerator of gpus.csv" in out
    assert "damaged" not in refreshed_path().read_text()
    prices = read_prices(flags())
    assert prices.refreshed == refreshed_path()
    eight = [one for one in prices.offers if one.instance_type == "gpu_8x_h100_sxm5"]
    assert [one.price_usd_per_hour for one in eight if one.region == "us-east-1"] == [30.0]
    aws = [one for one in prices.offers if one.provider == "aws"]
    assert len(aws) == sum(one.provider == "aws" for one in load_offers())
    assert run(["catalog", "--provider", "lambda"]) == Exit.PLAN
    assert "Prices refreshed, the newest from" in capsys.readouterr().out


def test_refresh_reads_gpuhunts_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hunt").mkdir()
    (tmp_path / "hunt" / "cudo.csv").write_text(
        "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,"
        "cpu_arch,provider_data\n"
        "box,no-1,0.55,8,32.0,1,L4,24.0,False,100.0,nvidia,,x86,{}\n"
    )
    assert run(["catalog", "refresh", "--gpuhunt", str(tmp_path / "hunt")]) == Exit.PLAN
    assert "cudo: 1 offers" in capsys.readouterr().out
    assert len(read_prices(flags()).offers) == len(load_offers()) + 1


def test_the_history_says_by_date_what_an_offer_cost_and_since_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["catalog", "--history", "L4"]) == Exit.PLAN
    assert "No earlier prices of L4-24GB are on record" in capsys.readouterr().out
    table = tmp_path / "sky" / "lambda" / "vms.csv"
    table.parent.mkdir(parents=True)
    for price in (0.80, 0.60):
        table.write_text(f"{VMS_HEADER}gpu_1x_l4,L4,1.0,8.0,32.0,{price},us-east-1,,\n")
        os.utime(table, (NOW.timestamp(), NOW.timestamp()))  # whatever clock the file system has
        assert run(["catalog", "refresh", "--skypilot", str(tmp_path / "sky")]) == Exit.PLAN
    assert "added: 1 price changes to " in capsys.readouterr().out
    assert run(["catalog", "--history", "L4", "--provider", "lambda"]) == Exit.PLAN
    first, second, end = capsys.readouterr().out.splitlines()[1:4]
    assert first.split() == [
        *f"{TODAY} L4-24GB lambda gpu_1x_l4 us-east-1 on-demand 1 $0.800/h $0.800/h".split(),
        "-",
    ]
    assert second.split()[-3:] == ["$0.600/h", "$0.600/h", "-25.0%"]
    assert end.startswith(f"2 prices of 1 offers, in US dollars, since {TODAY}")


def test_when_nothing_can_be_read_the_table_stays(
    published: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    offers = [make_offer(as_of=TODAY - timedelta(days=1))]
    save_offers(refreshed_path(), offers)
    assert run(["catalog", "refresh", "--skypilot", published[1]]) == Exit.BAD_INPUT
    assert "no provider's prices could be read, and the table stays as it was" in capsys.readouterr().err
    assert read_prices(flags()).offers == tuple(offers)


def test_the_catalog_shows_source_date_and_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "mine.csv"
    day = TODAY - timedelta(days=40)
    save_offers(table, [make_offer(as_of=day, source="a letter from the provider")])
    assert run(["catalog", "--catalog", str(table)]) == Exit.PLAN
    out = capsys.readouterr().out
    assert f"{day}       40!       1" in out
    assert "source 1: a letter from the provider" in out
    assert "1 on-demand prices of gcp are over 30 days old" in out


def test_a_table_that_cannot_be_written_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "offers.csv").mkdir()
    with pytest.raises(PlannerError, match=r"offers\.csv: cannot be written: Is a directory"):
        save_offers(tmp_path / "offers.csv", [make_offer()])
    (tmp_path / "file").write_text("")
    with pytest.raises(PlannerError, match="cannot be written: "):
        save_offers(tmp_path / "file" / "offers.csv", [make_offer()])
    assert {one.name for one in tmp_path.iterdir()} == {"file", "offers.csv"}
