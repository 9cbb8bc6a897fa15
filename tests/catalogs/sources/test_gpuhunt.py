"""gpuhunt's published format and every trap in it; the rows are written here in that format."""

import io
import zipfile
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from catalogs.errors import CatalogError
from catalogs.gpus import GIB, Link, load_gpus
from catalogs.offers import Offer, Pricing
from catalogs.sources.gpuhunt import import_gpuhunt, import_installed_gpuhunt
from catalogs.sources.price_source import Imported

GPUS = load_gpus()
DAY = date(2026, 11, 20)
HEADER = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,"
    "gpu_vendor,flags,cpu_arch,provider_data"
)


L4_ROW = "g6.xlarge,us-east-1,0.8048,4,16.0,1,L4,24.0,False,100.0,nvidia,,x86,{}"


def read(folder: Path, provider: str, *rows: str, header: str = HEADER) -> Imported:
    (folder / f"{provider}.csv").write_text("\n".join([header, *rows]) + "\n")
    return import_gpuhunt(str(folder), provider, GPUS, DAY)


def test_a_row_becomes_an_offer_of_the_files_provider(tmp_path: Path) -> None:
    row = "gpu_8x_h100_sxm5,us-east-1,31.92,208,1800.0,8,H100,80.0,False,22000,nvidia,,x86,{}"
    imported = read(tmp_path, "lambdalabs", row)
    assert imported.offers == (
        Offer(
            provider="lambda",
            instance_type="gpu_8x_h100_sxm5",
            region="us-east-1",
            pricing=Pricing.ON_DEMAND,
            gpu="H100-SXM5-80GB",
            gpu_count=8,
            vcpus=208,
            memory_bytes=1800 * GIB,
            gpu_link=Link.NVLINK,
            network_bytes_per_s=None,
            price_usd_per_hour=31.92,
            billing_increment_s=60,
            source=f"gpuhunt catalog, {tmp_path}/lambdalabs.csv",
            as_of=DAY,
        ),
    )
    assert imported.skipped == ()


@pytest.mark.parametrize(
    ("provider", "instance", "name", "memory", "expected"),
    [
        ("aws", "p4d.24xlarge", "A100", "40.0", "A100-SXM4-40GB"),
        ("aws", "p4de.24xlarge", "A100", "80.0", "A100-SXM4-80GB"),
        ("azure", "Standard_NC24ads_A100_v4", "A100", "80", "A100-PCIE-80GB"),
        ("azure", "Standard_NC40ads_H100_v5", "H100NVL", "94", "H100-NVL-94GB"),
        ("aws", "p3dn.24xlarge", "V100", "32", "V100-SXM2-32GB"),
        ("verda", "1RTX6000ADA.10V", "RTX6000Ada", "48", "RTX-6000-ADA-48GB"),
        ("runpod", "NVIDIA B200", "B200", "180", "B200-SXM-180GB"),
        ("vastai", "box", "RTX3080", "12", "RTX-3080-12GB"),
    ],
)
def test_memory_tells_variants_of_a_name_apart(
    tmp_path: Path, provider: str, instance: str, name: str, memory: str, expected: str
) -> None:
    row = f"{instance},r,2.0,16,128,1,{name},{memory},False,,nvidia,,x86,{{}}"
    (one,) = read(tmp_path, provider, row).offers
    assert one.gpu == expected


@pytest.mark.parametrize(
    ("provider", "cells", "reason"),
    [
        ("vastai", "H100,80,False,,nvidia", "no accelerator of gpus.csv, or its form factor is not said"),
        ("vultr", "MI300X,192,False,,amd", "not an NVIDIA GPU"),
        ("gcp", "tpu-v5p,0,False,,", "not an NVIDIA GPU"),
        ("azure", "A10,8,False,,nvidia", "8 GB of a A10-24GB: a share is not a whole card"),
        ("aws", "L4,3,False,,nvidia", "3 GB of a L4-24GB: a share is not a whole card"),
    ],
)
def test_what_is_no_whole_known_card_is_named_not_guessed(
    tmp_path: Path, provider: str, cells: str, reason: str
) -> None:
    imported = read(tmp_path, provider, f"box,r,2.0,16,128,1,{cells},,x86,{{}}")
    assert imported.offers == ()
    assert [one.reason for one in imported.skipped] == [reason]
    assert imported.skipped[0].what.endswith("GB (box)")


def test_older_files_without_vendor_mean_nvidia(tmp_path: Path) -> None:
    header = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size"
    (one,) = read(tmp_path, "aws", "g6.xlarge,us-east-1,0.8,4,16,1,L4,24,False,", header=header).offers
    assert one.gpu == "L4-24GB"


def test_spot_is_a_word_and_cpu_rows_have_an_architecture(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "aws",
        "m7i.xlarge,us-east-1,0.2016,4,16,0,,,False,,,,x86,{}",
        "m7g.xlarge,us-east-1,0.06,4,16,0,,,True,,,,arm,{}",
        "m7g.2xlarge,us-east-1,0.06,8,32,0,,,maybe,,,,arm,{}",
    )
    assert [(one.gpu, one.pricing, one.gpu_count) for one in imported.offers] == [
        ("CPU-X86-64", Pricing.ON_DEMAND, 1),
        ("CPU-ARM64", Pricing.SPOT, 1),
    ]
    assert [(one.what, one.reason) for one in imported.skipped] == [
        ("line 4", "spot is 'maybe', neither True nor False")
    ]


def test_the_cheapest_of_equal_rows_holds(tmp_path: Path) -> None:
    imported = read(
        tmp_path,
        "aws",
        "g6.xlarge,us-east-1,0.45,4,16,1,L4,24,True,,nvidia,,x86,{}",
        "g6.xlarge,us-east-1,0.35,4,16,1,L4,24,True,,nvidia,,x86,{}",
        "g6.xlarge,us-east-1,0.40,4,16,1,L4,24,True,,nvidia,,x86,{}",
    )
    assert [one.price_usd_per_hour for one in imported.offers] == [0.35]


@pytest.mark.parametrize("cells", ["free,4,16,1", "-1,4,16,1", "nan,4,16,1", "0.8,four,16,1", "0.8,4,16,one"])
def test_a_malformed_row_is_named_by_its_line(tmp_path: Path, cells: str) -> None:
    good = "g6.2xlarge,us-east-1,0.9776,8,32,1,L4,24,False,,nvidia,,x86,{}"
    imported = read(tmp_path, "aws", f"g6.xlarge,us-east-1,{cells},L4,24,False,,nvidia,,x86,{{}}", good)
    assert [one.instance_type for one in imported.offers] == ["g6.2xlarge"]
    assert [one.what for one in imported.skipped] == ["line 2"]


def publish(folder: Path, provider: str, version: str, content: bytes) -> None:
    (folder / provider / version).mkdir(parents=True)
    (folder / provider / "version").write_text(f"{version}\n")
    (folder / provider / version / "catalog.zip").write_bytes(content)


def zipped(row: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("aws.csv", f"{HEADER}\n{row}\n")
    return archive.getvalue()


def test_it_is_read_from_its_published_address_with_its_versions_date(published: tuple[Path, str]) -> None:
    folder, address = published
    publish(folder, "aws", "20261119-4711", zipped(L4_ROW))
    (one,) = import_gpuhunt(address, "aws", GPUS).offers
    assert (one.gpu, one.price_usd_per_hour, one.as_of) == ("L4-24GB", 0.8048, date(2026, 11, 19))
    assert one.source == f"gpuhunt catalog, {address}/aws/20261119-4711/catalog.zip"


def test_what_is_no_catalog_is_refused(published: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = published
    publish(folder, "aws", "v1", b"not a zip")
    with pytest.raises(CatalogError, match=r"catalog\.zip: not a gpuhunt catalog: File is not a zip file"):
        import_gpuhunt(address, "aws", GPUS)
    with pytest.raises(CatalogError, match="/gcp/version: the server answers 404"):
        import_gpuhunt(address, "gcp", GPUS)
    with pytest.raises(CatalogError, match=r"oci\.csv: not a gpuhunt catalog: column instance_name, "):
        read(tmp_path, "oci", "1,2", header="a,b")


def test_the_installed_package_answers_alike(
    published: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package reads the mirror that the test publishes; its other providers are missing there."""
    pytest.importorskip("gpuhunt", reason="needs the extra gpu-planner[gpuhunt]")
    folder, address = published
    publish(folder, "aws", "20261119-4711", zipped(L4_ROW))
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", address)
    (ours,) = import_gpuhunt(address, "aws", GPUS, DAY).offers
    assert import_installed_gpuhunt("aws", GPUS, DAY).offers == (
        replace(ours, source="gpuhunt package, aws"),
    )


def test_a_missing_package_says_how_to_get_it() -> None:
    try:
        import gpuhunt  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError:
        with pytest.raises(CatalogError, match=r"pip install 'gpu-planner\[gpuhunt\]'"):
            import_installed_gpuhunt("aws", GPUS, DAY)
    else:
        pytest.skip("gpuhunt is installed")
