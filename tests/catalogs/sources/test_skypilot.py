"""SkyPilot's published format and every trap in it; the rows are written here in that format."""

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from catalogs.errors import CatalogError
from catalogs.gpus import GIB, Link, load_gpus
from catalogs.offers import Offer, Pricing
from catalogs.sources.price_source import Imported
from catalogs.sources.skypilot import import_skypilot, read_vms

GPUS = load_gpus()
DAY = date(2026, 11, 20)
_SPECS = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB"
AWS = f"{_SPECS},GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch"
GCP = (
    "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,"
    "Region,AvailabilityZone,Price,SpotPrice"
)
LAMBDA = f"{_SPECS},Price,Region,GpuInfo,SpotPrice"
RUNPOD = f"{_SPECS},GpuInfo,Region,SpotPrice,Price,AvailabilityZone"


def gpu_info(name: str, count: int, size: int, total: int) -> str:
    memory = f"{{'SizeInMiB': {size}}}"
    gpu = f"{{'Name': '{name}', 'Manufacturer': 'NVIDIA', 'Count': {count}, 'MemoryInfo': {memory}}}"
    return f"\"{{'Gpus': [{gpu}], 'TotalGpuMemoryInMiB': {total}}}\""


def read(cloud: str, *lines: str) -> Imported:
    return read_vms(lines, cloud, GPUS, "a fixture", DAY)


def prices(imported: Imported) -> dict[tuple[str, str, str], float]:
    return {
        (one.instance_type, one.region, one.pricing.value): one.price_usd_per_hour for one in imported.offers
    }


def test_a_row_becomes_an_offer() -> None:
    info = gpu_info("H100", 8, 81920, 655360)
    imported = read(
        "aws", AWS, f"p5.48xlarge,H100,8.0,192.0,2048.0,{info},55.04,17.0,us-east-1,use1-az1,x86_64"
    )
    assert imported.skipped == ()
    assert imported.offers[0] == Offer(
        provider="aws",
        instance_type="p5.48xlarge",
        region="us-east-1",
        pricing=Pricing.ON_DEMAND,
        gpu="H100-SXM5-80GB",
        gpu_count=8,
        vcpus=192,
        memory_bytes=2048 * GIB,
        gpu_link=Link.NVLINK,
        network_bytes_per_s=None,
        price_usd_per_hour=55.04,
        billing_increment_s=60,
        source="a fixture",
        as_of=DAY,
    )
    assert prices(imported)["p5.48xlarge", "us-east-1", "spot"] == 17.0


def test_columns_are_read_by_name_and_some_clouds_have_fewer() -> None:
    info = gpu_info("A10", 1, 24576, 24576)
    by_lambda = read("lambda", LAMBDA, f"gpu_1x_a10,A10,1.0,30.0,200.0,1.29,us-south-3,{info},")
    by_runpod = read("runpod", RUNPOD, "1x_L4_SECURE,L4,1,12,50,,US,,0.44,")
    assert [(one.gpu, one.price_usd_per_hour, one.pricing) for one in by_lambda.offers] == [
        ("A10-24GB", 1.29, Pricing.ON_DEMAND)
    ]
    assert [(one.gpu, one.price_usd_per_hour) for one in by_runpod.offers] == [("L4-24GB", 0.44)]


def test_gcp_prices_are_the_sum_of_host_and_accelerators_of_the_same_zone() -> None:
    imported = read(
        "gcp",
        GCP,
        "a2-highgpu-1g,12.0,85.0,,,,us-central1,us-central1-a,0.73948,0.36975",
        "a2-highgpu-1g,12.0,85.0,,,,europe-west4,europe-west4-a,0.81406,0.31824",
        "n1-standard-8,8.0,30.0,,,,us-central1,us-central1-a,0.379998,0.08",
        ",,,A100,1,{'Gpus': [{'MemoryInfo': {'SizeInMiB': 40960}}]},us-central1,us-central1-a,2.93391,1.5399",
        ",,,T4,1,,us-central1,us-central1-a,0.35,0.14",
    )
    assert prices(imported) == {
        ("a2-highgpu-1g", "us-central1", "on-demand"): 3.67339,
        ("a2-highgpu-1g", "us-central1", "spot"): 1.90965,
        ("n1-standard-8+t4x1", "us-central1", "on-demand"): 0.729998,
        ("n1-standard-8+t4x1", "us-central1", "spot"): 0.22,
    }
    assert imported.offers[0].vcpus == 12
    assert imported.offers[0].gpu == "A100-SXM4-40GB"


def test_a_gcp_gpu_machine_is_never_offered_at_its_host_price() -> None:
    hosts = ["a2-highgpu-1g", "a3-highgpu-8g", "g2-standard-4", "a4-highgpu-8g", "ct6e-standard-1t"]
    imported = read("gcp", GCP, *(f"{host},8,64,,,,us-central1,us-central1-a,0.7,0.3" for host in hosts))
    assert imported.offers == ()


def test_a_gcp_accelerator_without_a_host_price_in_its_zone_is_named() -> None:
    imported = read(
        "gcp",
        GCP,
        "a3-highgpu-1g,26,234,,,,us-east4,us-east4-b,1.18,0.27",
        ",,,H100,1,,us-east4,us-east4-a,9.79655,3.8099",
        ",,,H100,5,,us-east4,us-east4-a,48.9,19.0",
    )
    assert imported.offers == ()
    assert [(one.what, one.reason) for one in imported.skipped] == [
        ("H100 x 1", "no price for its host a3-highgpu-1g there"),
        ("H100 x 5", "no machine type is known for it"),
    ]


@pytest.mark.parametrize(
    "info",
    [
        gpu_info("L4", 1, 24576, 24576),  # MiB
        gpu_info("L4", 1, 24, 24),  # RunPod: GB in a field called MiB
        gpu_info("L4", 1, 0, 0),  # Nebius
        gpu_info("L4", 1, 81920, 655360),  # simply wrong, as for H200 and B200 in metadata.csv
        '"{""Gpus"": [{""Name"": ""L4"", ""MemoryInfo"": {""SizeInMiB"": 24576}}]}"',  # Verda: JSON
        "__import__('os')",
        "",
    ],
)
def test_gpu_info_is_not_read_and_memory_is_our_own(info: str) -> None:
    imported = read("aws", AWS, f"g6.xlarge,L4,1.0,4.0,16.0,{info},0.8048,0.4,us-east-1,z,x86_64")
    assert {one.gpu for one in imported.offers} == {"L4-24GB"}
    assert GPUS["L4-24GB"].memory_bytes == int(21.95 * GIB)


def test_zones_become_one_offer_per_region_at_the_cheapest_zones_spot_price() -> None:
    rows = [
        f"g6.xlarge,L4,1,4,16,,0.8048,{spot},{region},{zone},x86_64"
        for region, zone, spot in [
            ("us-east-1", "a", "0.40"),
            ("us-east-1", "b", "0.8048"),
            ("us-east-1", "c", ""),
            ("us-east-1", "d", "0.35"),
            ("us-west-2", "a", "0.50"),
        ]
    ]
    imported = read("aws", AWS, *rows)
    assert prices(imported) == {
        ("g6.xlarge", "us-east-1", "on-demand"): 0.8048,
        ("g6.xlarge", "us-east-1", "spot"): 0.35,
        ("g6.xlarge", "us-west-2", "on-demand"): 0.8048,
        ("g6.xlarge", "us-west-2", "spot"): 0.50,
    }


def test_an_empty_or_equal_spot_price_is_no_spot_market() -> None:
    equal = read("runpod", RUNPOD, "1x_A100-80GB_SECURE,A100-80GB,1,8,117,,US-CA-1,1.39,1.39,")
    empty = read("lambda", LAMBDA, "gpu_1x_h100_pcie,H100,1.0,26.0,200.0,3.29,us-east-1,,")
    assert [one.pricing for one in (*equal.offers, *empty.offers)] == [Pricing.ON_DEMAND] * 2


def test_a_spot_only_row_has_no_on_demand_price() -> None:
    imported = read("verda", LAMBDA, "2B200.60V,B200,2.0,60.0,368.0,,FIN-03,,3.423")
    assert prices(imported) == {("2B200.60V", "FIN-03", "spot"): 3.423}


@pytest.mark.parametrize(
    ("cloud", "instance_type", "accelerator", "expected"),
    [
        ("aws", "p4d.24xlarge", "A100", "A100-SXM4-40GB"),
        ("aws", "p4de.24xlarge", "A100-80GB", "A100-SXM4-80GB"),
        ("aws", "p3.2xlarge", "V100", "V100-SXM2-16GB"),
        ("aws", "p3dn.24xlarge", "V100-32GB", "V100-SXM2-32GB"),
        ("azure", "Standard_NC24ads_A100_v4", "A100-80GB", "A100-PCIE-80GB"),
        ("azure", "Standard_ND96amsr_A100_v4", "A100-80GB", "A100-SXM4-80GB"),
        ("azure", "Standard_NC40ads_H100_v5", "H100", "H100-NVL-94GB"),
        ("azure", "Standard_ND96isr_H100_v5", "H100", "H100-SXM5-80GB"),
        ("azure", "Standard_NC6s_v3", "V100", "V100-PCIE-16GB"),
        ("lambda", "gpu_1x_h100_pcie", "H100", "H100-PCIE-80GB"),
        ("lambda", "gpu_8x_h100_sxm5", "H100", "H100-SXM5-80GB"),
        ("lambda", "gpu_1x_a100", "A100", "A100-PCIE-40GB"),
        ("lambda", "gpu_1x_a100_sxm4", "A100", "A100-SXM4-40GB"),
        ("runpod", "1x_H100_SECURE", "H100", "H100-PCIE-80GB"),
        ("runpod", "1x_H100-SXM_SECURE", "H100-SXM", "H100-SXM5-80GB"),
        ("runpod", "1x_H100-NVL_SECURE", "H100-NVL", "H100-NVL-94GB"),
        ("hyperstack", "n3-A100x1", "A100-80G-PCIe", "A100-PCIE-80GB"),
        ("hyperstack", "n3-H100-SXM5x8", "H100-80G-SXM5", "H100-SXM5-80GB"),
        ("verda", "1RTX6000ADA.10V", "RTX-6000-Ada", "RTX-6000-ADA-48GB"),
        ("vast", "1x-RTX6000Ada", "RTX6000Ada", "RTX-6000-ADA-48GB"),
        ("nebius", "gpu-h200-sxm_1gpu", "H200", "H200-SXM-141GB"),
        ("jarvislabs", "1x_RTXPRO6000_28V_160G", "RTXPRO6000", "RTX-PRO-6000-SERVER-96GB"),
        ("runpod", "1x_RTX4090_SECURE", "RTX4090", "RTX-4090-24GB"),
        ("lambda", "gpu_1x_rtx6000", "RTX6000", "QUADRO-RTX-6000-24GB"),
    ],
)
def test_loose_names_mean_one_card_by_cloud_and_instance(
    cloud: str, instance_type: str, accelerator: str, expected: str
) -> None:
    (one,) = read(cloud, LAMBDA, f"{instance_type},{accelerator},1,16,128,2.0,r,,").offers
    assert one.gpu == expected


@pytest.mark.parametrize(
    ("cloud", "accelerator", "count", "reason"),
    [
        ("vast", "H100", "1", "no accelerator of gpus.csv, or its form factor is not said"),
        ("fluidstack", "A100-80GB", "1", "no accelerator of gpus.csv, or its form factor is not said"),
        ("runpod", "NVIDIA", "1", "no accelerator of gpus.csv, or its form factor is not said"),
        ("aws", "Trainium", "1", "no accelerator of gpus.csv, or its form factor is not said"),
        ("aws", "L4", "0.125", "0.125 of a GPU: a share is not a whole card"),
        ("azure", "A10", "0.333", "0.333 of a GPU: a share is not a whole card"),
    ],
)
def test_what_is_no_whole_known_card_is_named_not_guessed(
    cloud: str, accelerator: str, count: str, reason: str
) -> None:
    imported = read(cloud, LAMBDA, f"box,{accelerator},{count},16,128,2.0,r,,")
    assert imported.offers == ()
    assert [(one.what, one.reason, one.row_count) for one in imported.skipped] == [
        (f"{accelerator} (box)", reason, 1)
    ]


def test_cpu_rows_are_taken_by_architecture_and_family() -> None:
    rows = [
        "m7i.xlarge,,,4.0,16.0,,0.2016,0.08,us-east-1,z,x86_64",
        "m7g.large,,,2.0,8.0,,0.0816,0.03,us-east-1,z,arm64",
        "x2idn.32xlarge,,,128.0,2048.0,,13.3,4.0,us-east-1,z,x86_64",  # a memory machine
        "c1.medium,,,2.0,1.7,,0.13,0.04,us-east-1,z,i386",
    ]
    by_aws = read("aws", AWS, *rows)
    assert {(one.instance_type, one.gpu, one.gpu_count) for one in by_aws.offers} == {
        ("m7i.xlarge", "CPU-X86-64", 1),
        ("m7g.large", "CPU-ARM64", 1),
    }
    by_gcp = read("gcp", GCP, "t2a-standard-4,4.0,16.0,,,,us-central1,us-central1-a,0.154,0.05")
    assert {one.gpu for one in by_gcp.offers} == {"CPU-ARM64"}
    by_lambda = read("lambda", LAMBDA, "cpu_4x_general,,,4.0,16.0,0.2,us-east-1,,")
    assert {one.gpu for one in by_lambda.offers} == {"CPU-X86-64"}


def test_a_malformed_row_is_named_and_the_others_are_read() -> None:
    imported = read(
        "aws",
        AWS,
        "g6.xlarge,L4,1,4,16,,free,0.4,us-east-1,z,x86_64",
        "g6.2xlarge,L4,1,8,32,,0.9776,0.4,us-east-1,z,x86_64",
    )
    assert {one.instance_type for one in imported.offers} == {"g6.2xlarge"}
    assert [(one.what, one.reason) for one in imported.skipped] == [
        ("line 2", "could not convert string to float: 'free'")
    ]


def test_another_format_is_refused() -> None:
    with pytest.raises(CatalogError, match=r"aws/vms\.csv: not a SkyPilot catalog: column AcceleratorName, "):
        read("aws", "InstanceType,Cost", "p5,1")


def test_it_is_read_over_http_with_the_servers_date(published: tuple[Path, str]) -> None:
    folder, address = published
    (folder / "lambda").mkdir()
    file = folder / "lambda" / "vms.csv"
    file.write_text(f"{LAMBDA}\ngpu_1x_a10,A10,1.0,30.0,200.0,1.29,us-south-3,,\n")
    stamp = datetime(2026, 11, 18, 7, tzinfo=UTC).timestamp()
    os.utime(file, (stamp, stamp))
    (one,) = import_skypilot(address, "lambda", GPUS).offers
    assert (one.gpu, one.as_of) == ("A10-24GB", date(2026, 11, 18))
    assert one.source == f"SkyPilot catalog, {address}/lambda/vms.csv"
    assert import_skypilot(str(folder), "lambda", GPUS, DAY).offers[0].as_of == DAY


def test_what_cannot_be_had_says_why(published: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = published
    with pytest.raises(CatalogError, match=r"/aws/vms.csv: the server answers 404"):
        import_skypilot(address, "aws", GPUS)
    with pytest.raises(CatalogError, match=r"aws/vms.csv: cannot be read: No such file"):
        import_skypilot(str(tmp_path), "aws", GPUS)
    with pytest.raises(CatalogError, match=r"cannot be reached: .*refused"):
        import_skypilot("http://127.0.0.1:9", "aws", GPUS)
    (folder / "aws").mkdir()
    (folder / "aws" / "vms.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogError, match="not a UTF-8 text"):
        import_skypilot(address, "aws", GPUS)
