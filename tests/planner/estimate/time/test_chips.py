from __future__ import annotations

import pytest

from catalogs.gpus import load_gpus
from planner.estimate.time.chips import chip, chip_of
from planner.estimate.time.reference import reference
from planner.estimate.values import Hardware
from tests.builders import make_config, make_cpu
from trials.trial import Precision

GPUS = load_gpus()


def test_power_limits_small_cards_and_not_large_ones() -> None:
    t4, l4, h100 = (chip(GPUS[name], Precision.FP32) for name in ("T4-16GB", "L4-24GB", "H100-SXM5-80GB"))
    assert t4 is not None
    assert l4 is not None
    assert h100 is not None

    assert t4.sustained_flop_per_s == pytest.approx(70 / reference().fp32_flop_j["Turing"])
    assert 3e12 < t4.sustained_flop_per_s < 4.5e12  # of 8.1 on the data sheet
    assert l4.is_power_limited
    assert l4.throttle > 1.5
    assert not h100.is_power_limited
    assert h100.throttle == 1.0


def test_a_t4_sustains_a_third_of_its_matrix_units() -> None:
    t4 = chip(GPUS["T4-16GB"], Precision.FP16)

    assert t4 is not None
    assert 20e12 < t4.sustained_flop_per_s < 30e12  # 24 TFLOP/s measured of 65 (NVIDIA forum)


def test_a_precision_without_a_unit_gives_no_chip() -> None:
    assert chip(GPUS["T4-16GB"], Precision.BF16) is None
    assert chip(GPUS["CPU-X86-64"], Precision.FP16) is None


def test_tf32_without_its_unit_is_plain_fp32() -> None:
    tf32, fp32 = (chip(GPUS["V100-PCIE-32GB"], one) for one in (Precision.TF32, Precision.FP32))

    assert tf32 is not None
    assert fp32 is not None
    assert tf32.sustained_flop_per_s == fp32.sustained_flop_per_s
    assert not tf32.is_on_units


def test_workers_share_the_cores_of_a_cpu() -> None:
    cpu = make_cpu()
    hardware = Hardware(gpu=cpu, link=cpu.link, vcpus=8)

    one = chip_of(make_config(cpu.name, gpu_count=1), hardware)
    two = chip_of(make_config(cpu.name, gpu_count=2), hardware)

    assert one is not None
    assert two is not None
    assert one.bytes_per_s == pytest.approx(2 * two.bytes_per_s)
    assert chip_of(make_config(cpu.name), Hardware(gpu=cpu, link=cpu.link)) is None  # how many cores?


def test_no_share_exceeds_its_peak_and_every_architecture_has_an_energy() -> None:
    known = reference()

    for shares in (known.lane_fraction, known.unit_fraction, known.stream_fraction, known.rowwise_fraction):
        assert all(0.0 < share <= 1.0 for share in shares.values())
    for gpu in GPUS.values():
        assert gpu.architecture in known.fp32_flop_j or gpu.compute_capability is None, gpu.name
        assert known.stream(gpu) <= 1.0
