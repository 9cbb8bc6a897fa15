from __future__ import annotations

import numpy as np
import pytest

from catalogs.gpus import load_gpus
from planner.estimate import Estimate, Hardware, fit
from planner.estimate.time.chips import Chip, chip
from planner.estimate.transfer.tensor import WIDTH, link_s_per_flop
from planner.estimate.transfer.workload_decomposition import MicroBatchTime, decompose
from tests.builders import make_config, make_measurement
from trials.trial import Precision

GPUS = load_gpus()
NVLINK, PCIE = "A100-SXM4-40GB", "RTX-2080-TI-11GB"


def on(name: str) -> Chip:
    found = chip(GPUS[name], Precision.FP32)
    assert found is not None
    return found


def rank_s(at: Chip, size: float, *, tensor_count: int, flops: float = 60e9, moved: float = 1e9) -> float:
    """A rank's micro batch, exactly what the formula says of a model of median width."""
    link_s = flops * float(link_s_per_flop(at, np.array([WIDTH]), tensor_count)[0])
    memory_s = moved / at.bytes_per_s
    free_s = flops / at.product_flop_per_s + memory_s
    limited_s = flops / at.sustained_flop_per_s + at.stream_power_fraction * memory_s
    return 0.010 + size * (max(free_s, limited_s) + link_s)


def estimated(tensor_count: int, target: str) -> Estimate:
    """On ``target``, from ranks measured on NVLink."""
    measurements = [
        make_measurement(
            make_config(NVLINK, micro_batch_size=size, precision=Precision.FP32), step_time_s=0.05 * size
        )
        for size in (2, 8, 32)
    ]
    config = make_config(target, micro_batch_size=8, precision=Precision.FP32)
    hardware = Hardware(gpu=GPUS[target], link=GPUS[target].link)
    found = fit(measurements, gpus=GPUS, tensor_count=tensor_count).step_time_s(config, hardware)
    assert found is not None
    return found


def test_one_rank_exchanges_nothing() -> None:
    assert link_s_per_flop(on(PCIE), np.array([WIDTH]), 1)[0] == 0.0


def test_a_layers_traffic_is_four_all_reduces_of_its_activations() -> None:
    at, width, tokens = on(NVLINK), 4096.0, 2048
    flop_per_rank = 72.0 * tokens * width**2 / 4
    carried_bytes = 4 * (2 * 3 / 4) * tokens * width * 4  # a ring of four carries 2 x 3/4 of each message

    seconds = link_s_per_flop(at, np.array([width]), 4)[0] * flop_per_rank

    assert seconds == pytest.approx(carried_bytes / at.link.bytes_per_s)


@pytest.mark.parametrize(("source", "target"), [(NVLINK, PCIE), (PCIE, NVLINK)])
def test_ranks_are_carried_from_one_link_to_another(source: str, target: str) -> None:
    before, after = on(source), on(target)
    points = [MicroBatchTime(before, size, rank_s(before, size, tensor_count=4)) for size in (2, 8, 32)]
    true_ratio = rank_s(after, 8, tensor_count=4) / rank_s(before, 8, tensor_count=4)

    told = decompose(points, tensor_count=4).ratio(before, after, 8).median
    untold = decompose(points).ratio(before, after, 8).median

    assert told == pytest.approx(true_ratio, rel=0.3)
    assert abs(np.log(untold / true_ratio)) > 2.0 * abs(np.log(told / true_ratio))


def test_a_link_that_nobody_measured_widens_the_interval() -> None:
    plain, ranks = estimated(1, PCIE), estimated(4, PCIE)

    assert ranks.expected > 1.2 * plain.expected
    assert ranks.high / ranks.low > 1.2 * (plain.high / plain.low)
