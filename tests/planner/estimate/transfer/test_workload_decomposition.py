from __future__ import annotations

import math

import pytest

from catalogs.gpus import load_gpus
from planner.estimate.time.chips import Chip, chip
from planner.estimate.transfer.workload_decomposition import MicroBatchTime, decompose
from trials.trial import Precision

GPUS = load_gpus()


def on(name: str, precision: Precision = Precision.FP32) -> Chip:
    found = chip(GPUS[name], precision)
    assert found is not None
    return found


def true_s(at: Chip, size: float, *, host_s: float, flops: float, moved: float) -> float:
    """A workload that is exactly what the formula says."""
    share = 0.5 if at.precision in (Precision.BF16, Precision.FP16) else 1.0
    memory_s = share * moved / at.bytes_per_s
    free_s = flops / at.product_flop_per_s + memory_s
    return host_s + size * max(free_s, flops / at.sustained_flop_per_s + at.stream_power_fraction * memory_s)


COMPUTE_BOUND = {"host_s": 0.010, "flops": 60e9, "moved": 0.6e9}
MEMORY_BOUND = {"host_s": 0.010, "flops": 5e9, "moved": 0.8e9}
HOST_BOUND = {"host_s": 0.060, "flops": 0.2e9, "moved": 0.01e9}


@pytest.mark.parametrize("workload", [COMPUTE_BOUND, MEMORY_BOUND, HOST_BOUND])
def test_two_chips_and_three_sizes_predict_a_third_chip(workload: dict[str, float]) -> None:
    known, asked = [on("V100-PCIE-32GB"), on("A100-SXM4-40GB")], on("H100-SXM5-80GB")
    mix = decompose(
        [MicroBatchTime(one, size, true_s(one, size, **workload)) for one in known for size in (2, 8, 32)]
    )

    ratio = mix.ratio(known[1], asked, 8)

    true_ratio = true_s(asked, 8, **workload) / true_s(known[1], 8, **workload)
    assert ratio.median == pytest.approx(true_ratio, rel=0.07)


def test_flat_times_over_the_batch_size_are_the_hosts() -> None:
    source, target = on("T4-16GB"), on("H100-SXM5-80GB")
    flat = decompose([MicroBatchTime(source, size, 0.060 + 1e-5 * size) for size in (1, 2, 4, 8)])
    linear = decompose([MicroBatchTime(source, size, 0.200 * size) for size in (1, 2, 4, 8)])

    assert flat.host_share(source, 4) > 0.9
    assert flat.ratio(source, target, 4).median > 0.85
    assert linear.host_share(source, 4) < 0.1
    assert linear.ratio(source, target, 4).median < 0.2


def test_two_precisions_tell_compute_from_memory() -> None:
    fp32, tf32 = on("A100-SXM4-40GB"), on("A100-SXM4-40GB", Precision.TF32)
    mixes = [
        decompose([MicroBatchTime(one, 16, true_s(one, 16, **workload)) for one in (fp32, tf32)])
        for workload in (COMPUTE_BOUND, MEMORY_BOUND)
    ]

    bandwidth_alike = on("RTX-4090-24GB")  # four times the fp32 lanes, two thirds of the bandwidth
    compute, memory = (one.ratio(fp32, bandwidth_alike, 16).median for one in mixes)
    assert compute < 0.6
    assert memory > 0.9


def test_one_point_leaves_a_wide_spread_that_more_points_narrow() -> None:
    source, target = on("A100-SXM4-40GB"), on("H100-SXM5-80GB")
    times = {size: true_s(source, size, **COMPUTE_BOUND) for size in (1, 2, 8, 32)}
    one = decompose([MicroBatchTime(source, 2, times[2])]).ratio(source, target, 2)
    many = decompose([MicroBatchTime(source, size, seconds) for size, seconds in times.items()]).ratio(
        source, target, 2
    )

    assert one.log_spread > 1.5 * many.log_spread


def test_the_way_to_the_same_chip_is_no_way() -> None:
    source = on("L4-24GB")
    mix = decompose([MicroBatchTime(source, 4, 0.3)])

    assert mix.ratio(source, source, 4).median == pytest.approx(1.0)
    assert mix.ratio(source, source, 4).log_spread == pytest.approx(0.0, abs=1e-12)
    assert math.isclose(mix.gpu_ratio(source, source, 4), 1.0)
