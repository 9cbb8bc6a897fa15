"""The shipped accelerators, row by row, and the three ways to find one."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from catalogs.errors import CatalogError
from catalogs.gpus import (
    GIB,
    DeviceKind,
    Gpu,
    Link,
    cpu_class,
    find_family,
    find_gpu,
    load_gpus,
    match_device,
    parse_gpus,
)

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
GPUS = load_gpus()
CARDS = [gpu for gpu in GPUS.values() if gpu.kind is DeviceKind.GPU]
HEADER = "name,kind,device_names,architecture,memory_gib,bandwidth_gb_per_s,fp32_tflop_per_s,link,source\n"


def nominal_gb(gpu: Gpu) -> int:
    return int(gpu.name.rsplit("-", 1)[1].removesuffix("GB"))


@pytest.fixture(params=CARDS, ids=lambda gpu: gpu.name)
def card(request: pytest.FixtureRequest) -> Gpu:
    gpu = request.param
    assert isinstance(gpu, Gpu)
    return gpu


def test_the_table_is_large_enough() -> None:
    assert len(CARDS) >= 30
    families = ("T4-", "V100-", "A100-", "H100-", "H200-", "B200-", "L4-", "RTX-4090-", "RTX-PRO-6000-")
    assert all(any(name.startswith(family) for name in GPUS) for family in families)
    assert {gpu.name for gpu in GPUS.values() if gpu.kind is DeviceKind.CPU} == {"CPU-X86-64", "CPU-ARM64"}


def test_a_name_ends_in_its_memory_and_cuda_offers_a_little_less(card: Gpu) -> None:
    assert 0.84 * nominal_gb(card) * GIB < card.memory_bytes <= 1.0 * nominal_gb(card) * GIB


def test_tensor_cores_are_dense_and_no_slower_than_cuda_cores(card: Gpu) -> None:
    assert card.tf32_flop_per_s is None or card.tf32_flop_per_s >= card.fp32_flop_per_s
    assert card.bf16_flop_per_s is None or card.bf16_flop_per_s == card.fp16_flop_per_s
    if card.tf32_flop_per_s and card.bf16_flop_per_s:  # a sparse figure beside a dense one would show here
        assert card.bf16_flop_per_s / card.tf32_flop_per_s == pytest.approx(2, rel=0.04)


def test_bf16_and_tf32_begin_with_ampere(card: Gpu) -> None:
    is_ampere_or_later = card.compute_capability is not None and card.compute_capability >= 8
    assert (card.bf16_flop_per_s is not None) == (card.tf32_flop_per_s is not None) == is_ampere_or_later


def test_fp32_follows_from_the_multiprocessors(card: Gpu) -> None:
    """64 or 128 FMA per SM and cycle at 0.9 to 2.7 GHz."""
    assert card.sm_count is not None
    lanes = 64 if card.compute_capability in {6.0, 7.0, 7.5, 8.0} else 128
    clock_hz = card.fp32_flop_per_s / (2 * lanes * card.sm_count)
    assert 0.9e9 < clock_hz < 2.7e9


def test_the_tensor_figure_follows_from_the_multiprocessors(card: Gpu) -> None:
    """FLOP per SM and cycle of the generation, at the clock that the fp32 figure implies."""
    if card.compute_capability is None or card.compute_capability < 7 or card.fp16_flop_per_s is None:
        pytest.skip("no tensor cores")
    assert card.sm_count is not None
    lanes = 64 if card.compute_capability in {7.0, 7.5, 8.0} else 128
    clock_hz = card.fp32_flop_per_s / (2 * lanes * card.sm_count)
    per_cycle = card.fp16_flop_per_s / card.sm_count / clock_hz
    known = {7.0: (1024,), 7.5: (1024, 512), 8.0: (2048,), 8.6: (1024, 512), 8.9: (1024, 512), 9.0: (4096,)}
    known |= {10.0: (8192,), 10.3: (8192,), 12.0: (1024, 512)}
    exceptions = {"H20-96GB": 860, "H100-PCIE-80GB": 3800, "H100-NVL-94GB": 3560, "H200-NVL-141GB": 3560}
    expected = (exceptions[card.name],) if card.name in exceptions else known[card.compute_capability]
    assert any(per_cycle == pytest.approx(one, rel=0.10) for one in expected), per_cycle


def test_links(card: Gpu) -> None:
    assert card.link in {Link.NVLINK, Link.PCIE}
    assert card.link_bytes_per_s == card.bytes_per_s_over(card.link)
    assert card.pcie_bytes_per_s is not None
    assert 7e9 < card.pcie_bytes_per_s <= 63e9
    if card.link is Link.NVLINK:
        assert card.nvlink_bytes_per_s is not None
        assert card.nvlink_bytes_per_s >= 80e9
    assert card.bytes_per_s_over(Link.NONE) is None


def test_other_figures_are_plausible(card: Gpu) -> None:
    assert card.power_w is not None
    assert 40 <= card.power_w <= 1400
    assert 100e9 < card.bandwidth_bytes_per_s <= 8e12
    assert card.l2_cache_bytes is not None
    assert 1 << 20 < card.l2_cache_bytes < 256 << 20
    assert card.device_names
    assert "http" in card.source or "data sheet" in card.source


def test_cpu_classes_are_per_vcpu() -> None:
    for name in ("CPU-X86-64", "CPU-ARM64"):
        cpu = GPUS[name]
        assert 2e10 < cpu.fp32_flop_per_s < 3e11
        assert 1e9 < cpu.bandwidth_bytes_per_s < 2e10
        assert cpu.memory_bytes == 4 * GIB
        assert cpu.fp16_flop_per_s is cpu.tf32_flop_per_s is cpu.link_bytes_per_s is None
        assert "per vCPU" in cpu.source


def test_no_two_cards_share_driver_name_and_memory() -> None:
    for one in CARDS:
        for name in one.device_names:
            assert match_device(name, one.memory_bytes, GPUS) is one


@pytest.mark.parametrize(
    ("device_name", "reported_mib", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", 81559, "H100-PCIE-80GB"),
        ("NVIDIA H100 NVL", 95830, "H100-NVL-94GB"),
        ("NVIDIA H200", 143771, "H200-SXM-141GB"),
        ("NVIDIA A100-SXM4-40GB", 40960, "A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-80GB", 81920, "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", 81920, "A100-PCIE-80GB"),
        ("NVIDIA GeForce RTX 3080", 10240, "RTX-3080-10GB"),
        ("NVIDIA GeForce RTX 3080", 12288, "RTX-3080-12GB"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "RTX-6000-ADA-48GB"),
        ("Quadro RTX 6000", 24576, "QUADRO-RTX-6000-24GB"),
        ("Tesla T4", 15360, "T4-16GB"),
    ],
)
def test_a_driver_name_matches_one_card(device_name: str, reported_mib: int, expected: str) -> None:
    gpu = match_device(device_name, reported_mib << 20, GPUS)
    assert gpu is not None
    assert gpu.name == expected


@pytest.mark.parametrize(
    ("device_name", "reported_mib"),
    [
        ("NVIDIA H100", 81559),  # nobody's driver says that
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864),
        ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", 81559),
        ("NVIDIA A10-24Q", 24512),  # a vGPU
        ("nvidia h100 80gb hbm3", 81559),
        ("NVIDIA GeForce RTX 3080", 16384),  # no card of that name has so much
        ("", 0),
    ],
)
def test_an_unknown_device_is_none(device_name: str, reported_mib: int) -> None:
    assert match_device(device_name, reported_mib << 20, GPUS) is None


def test_measured_driver_names_are_known() -> None:
    configs = SHARED / "neusight" / "device_configs"
    if not configs.is_dir():
        pytest.skip("needs ../shared/data/neusight")
    names = {one.stem.replace("_", " ") for one in configs.glob("*.json") if "AMD" not in one.stem} - {
        "NVIDIA H100 80GB HBM3 TP"
    }
    assert names
    assert all(match_device(name, 0, GPUS) for name in names), names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("a100-sxm4-80gb", "A100-SXM4-80GB"),
        ("A100 SXM4 80GB", "A100-SXM4-80GB"),
        ("L4", "L4-24GB"),
        (" rtx  4090_24gb", "RTX-4090-24GB"),
        ("h100-sxm5", "H100-SXM5-80GB"),
        ("A10", "A10-24GB"),
        ("NVIDIA H200", "H200-SXM-141GB"),
        ("cpu-arm64", "CPU-ARM64"),
    ],
)
def test_what_a_person_types_is_found(text: str, expected: str) -> None:
    assert find_gpu(text, GPUS).name == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "H100",
            "GPU 'H100' can mean H100-NVL-94GB, H100-PCIE-80GB, H100-SXM5-80GB;"
            " write one of these names in full",
        ),
        (
            "a100-80gb",
            "GPU 'a100-80gb' can mean A100-PCIE-80GB, A100-SXM4-80GB; write one of these names in full",
        ),
        ("V100-SXM2", "can mean V100-SXM2-16GB, V100-SXM2-32GB"),
        ("H100-SXM4-80GB", "did you mean H100-SXM5-80GB"),
        ("", "`planner catalog --gpus` lists the names"),
        ("TPU-V5", "is not in the catalog"),
    ],
)
def test_what_means_several_or_none_is_refused_with_the_candidates(text: str, message: str) -> None:
    with pytest.raises(CatalogError) as error:
        find_gpu(text, GPUS)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("H100", {"H100-SXM5-80GB", "H100-PCIE-80GB", "H100-NVL-94GB"}),
        ("h200", {"H200-SXM-141GB", "H200-NVL-141GB"}),
        ("rtx 3080", {"RTX-3080-10GB", "RTX-3080-12GB"}),
        ("L4", {"L4-24GB"}),  # and no L40
        ("A100-SXM4", {"A100-SXM4-40GB", "A100-SXM4-80GB"}),
        ("A100-SXM4-80GB", {"A100-SXM4-80GB"}),
    ],
)
def test_a_family_is_what_begins_with_its_name(text: str, names: set[str]) -> None:
    assert {one.name for one in find_family(text, GPUS)} == names


@pytest.mark.parametrize("text", ["RTX 6000", "80GB", "PCIE"])
def test_different_chips_are_no_family(text: str) -> None:
    with pytest.raises(CatalogError, match="write one of these names in full"):
        find_family(text, GPUS)


@pytest.mark.parametrize(
    ("machine", "expected"),
    [("x86_64", "CPU-X86-64"), ("AMD64", "CPU-X86-64"), ("aarch64", "CPU-ARM64"), ("arm64", "CPU-ARM64")],
)
def test_a_machine_has_a_cpu_class(machine: str, expected: str) -> None:
    assert cpu_class(machine, GPUS).name == expected


def test_an_unknown_machine_has_none() -> None:
    with pytest.raises(CatalogError, match="CPU architecture 'riscv64' has no class"):
        cpu_class("riscv64", GPUS)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "X-1GB,gpu,,Ampere,0,1,1,pcie,me\n",
            "g.csv, line 2, field memory_gib: '0' is not a positive number"
            " (leave the cell empty where it is unknown)",
        ),
        ("X-1GB,gpu,,Ampere,,1,1,pcie,me\n", "field memory_gib: '' is not a number: it must not be empty"),
        ("X-1GB,gpu,,Ampere,1,1,1,slot,me\n", "field link: 'slot' is not one of nvlink, pcie, none"),
        ("X-1GB,gpu,,Ampere,1,1,1,pcie,\n", "field source: '' is not a text"),
        ("X-1GB,gpu,,Ampere,1,1,inf,pcie,me\n", "field fp32_tflop_per_s: 'inf' is not a positive number"),
        (
            "X-1GB,gpu,,A,1,1,1,pcie,me\nX-1GB,gpu,,A,1,1,1,pcie,me\n",
            "line 3, field name: 'X-1GB' is not unique",
        ),
    ],
)
def test_a_bad_row_is_named(row: str, message: str) -> None:
    with pytest.raises(CatalogError) as error:
        parse_gpus((HEADER + row).splitlines(), "g.csv")
    assert message in str(error.value)


def test_both_tables_load_without_heavy_imports() -> None:
    code = (
        "import sys\n"
        "from catalogs.offers import load_offers; load_offers()\n"
        "print([m for m in ('pandas', 'torch', 'numpy', 'ray') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_estimators_own_sheet_is_close() -> None:
    """The figures typed for the transfer data set, apart from those this table corrects (see gpus.csv)."""
    sheet = SHARED / "transfer" / "gpu_specs.csv"
    if not sheet.is_file():
        pytest.skip("needs ../shared/data/transfer")
    names = {"T4": "T4-16GB", "V100": "V100-SXM2-16GB", "V100-PCIE": "V100-PCIE-32GB"}
    names |= {"A40": "A40-48GB", "A100-40": "A100-SXM4-40GB", "A100-80P": "A100-PCIE-80GB", "L4": "L4-24GB"}
    names |= {
        "H100-S": "H100-SXM5-80GB",
        "H200": "H200-SXM-141GB",
        "RTX4090": "RTX-4090-24GB",
        "P4": "P4-8GB",
    }
    with sheet.open() as lines:
        rows = {row["gpu"]: row for row in csv.DictReader(lines)}
    for theirs, ours in names.items():
        gpu = GPUS[ours]
        assert gpu.fp32_flop_per_s == pytest.approx(float(rows[theirs]["fp32_tflops"]) * 1e12, rel=0.03)
        assert gpu.bandwidth_bytes_per_s == pytest.approx(float(rows[theirs]["mem_gb_s"]) * 1e9, rel=0.07)
