"""Which provider is read from where."""

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from catalogs.errors import CatalogError
from catalogs.gpus import load_gpus
from catalogs.providers import load_providers
from catalogs.refresh import refresh
from catalogs.sources.gpuhunt import INSTALLED
from catalogs.sources.registry import price_sources, sources_of
from catalogs.sources.skypilot import import_skypilot

GPUS = load_gpus()
TODAY = date(2026, 11, 21)
VMS = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
    "g6.xlarge,L4,1.0,4.0,16.0,0.80,us-east-1,,0.30\n"
)
ITEMS = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,"
    "cpu_arch,provider_data\n"
    "g6.xlarge,us-east-1,0.99,4,16.0,1,L4,24.0,False,100.0,nvidia,,x86,{}\n"
)


def write_of_today(path: Path, text: str) -> None:
    """A file whose prices are of `TODAY`, whatever the day of the test."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    stamp_s = datetime(TODAY.year, TODAY.month, TODAY.day, tzinfo=UTC).timestamp()
    os.utime(path, (stamp_s, stamp_s))


def folders(tmp_path: Path) -> tuple[str, str]:
    for cloud in ("aws", "datacrunch"):
        write_of_today(tmp_path / "sky" / cloud / "vms.csv", VMS)
    for provider in ("aws", "lambdalabs"):
        write_of_today(tmp_path / "hunt" / f"{provider}.csv", ITEMS)
    return str(tmp_path / "sky"), str(tmp_path / "hunt")


def test_a_folder_says_what_it_holds_and_skypilot_goes_first(tmp_path: Path) -> None:
    sky, hunt = folders(tmp_path)
    sources = sources_of({"skypilot": sky, "gpuhunt": hunt}, GPUS, TODAY)
    assert [one.provider for one in sources] == ["aws", "verda", "lambda"]
    offers = refresh(sources, (), GPUS, TODAY).offers
    prices = {one.provider: one.price_usd_per_hour for one in offers if one.pricing == "on-demand"}
    assert prices == {"aws": 0.80, "verda": 0.80, "lambda": 0.99}


def test_an_address_has_the_providers_known_to_be_there() -> None:
    providers = load_providers().values()
    sources = sources_of({"skypilot": "https://example.invalid/v8"}, GPUS, TODAY)
    assert [source.provider for source in sources] == [one.name for one in providers if one.skypilot_catalog]
    sources = sources_of({"gpuhunt": "https://example.invalid"}, GPUS, TODAY)
    assert [source.provider for source in sources] == [one.name for one in providers if one.gpuhunt_catalog]
    assert "hyperstack" in {one.provider for one in sources_of({"gpuhunt": INSTALLED}, GPUS, TODAY)}


def test_the_sources_that_there_are_stand_in_order() -> None:
    assert [source.name for source in price_sources()] == ["skypilot", "gpuhunt"]


def test_providers_can_be_picked(tmp_path: Path) -> None:
    sky, hunt = folders(tmp_path)
    roots = {"skypilot": sky, "gpuhunt": hunt}
    assert [one.provider for one in sources_of(roots, GPUS, TODAY, ["lambda"])] == ["lambda"]
    with pytest.raises(
        CatalogError, match="--provider acme: not published there; there are aws, lambda, verda"
    ):
        sources_of(roots, GPUS, TODAY, ["acme"])


def test_a_folder_without_a_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"no catalog there: no file \*/vms\.csv"):
        sources_of({"skypilot": str(tmp_path)}, GPUS, TODAY)


def test_a_read_cloud_is_the_importers_own(tmp_path: Path) -> None:
    sky, _ = folders(tmp_path)
    assert sources_of({"skypilot": sky}, GPUS, TODAY, ["aws"])[0].read() == import_skypilot(sky, "aws", GPUS)
