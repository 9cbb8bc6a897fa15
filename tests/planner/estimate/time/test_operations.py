from __future__ import annotations

import numpy as np
import pytest

from catalogs.gpus import load_gpus
from planner.estimate.time.chips import Chip, chip
from planner.estimate.time.operations import matmul_s, roofline_s, step_time, work_of
from planner.estimate.time.reference import reference
from tests.builders import make_trace
from trials.profile import Operation, OperationClass, Trace
from trials.trial import Precision

GPUS = load_gpus()


def a100(precision: Precision = Precision.FP32) -> Chip:
    found = chip(GPUS["A100-SXM4-40GB"], precision)
    assert found is not None
    return found


def seconds(rows: int, columns: int, inner: int, on: Chip) -> float:
    shapes = np.array([[1.0, rows, columns, inner]])
    moved = 4.0 * np.array([rows * inner + inner * columns + rows * columns], dtype=float)
    return float(matmul_s(shapes, moved, np.array([on.product_flop_per_s]), on)[0])


def traced(*operations: Operation) -> Trace:
    return make_trace(operations=operations)


def stream(size: float, kind: OperationClass = OperationClass.ELEMENTWISE, count: int = 1) -> Operation:
    return Operation(
        name="aten.add", kind=kind, dtype="float32", shape=(1,), count=count, flops=0.0, bytes=size
    )


def test_a_large_product_runs_near_the_rate_of_the_chip() -> None:
    flops = 2.0 * 8192**3

    assert flops / seconds(8192, 8192, 8192, a100()) == pytest.approx(a100().product_flop_per_s, rel=0.06)


def test_one_tile_too_many_costs_a_wave() -> None:
    full, partial = (seconds(128 * 108, columns, 4096, a100()) for columns in (128 * 8, 128 * 8 + 1))

    assert partial / full == pytest.approx(9 / 8, rel=0.07)  # or half a tile more, with narrow tiles


def test_a_thin_product_is_bound_by_memory() -> None:
    rows, inner = 4096, 4096
    moved = 4.0 * (rows * inner + inner + rows)

    assert seconds(rows, 1, inner, a100()) >= moved / a100().bytes_per_s


def test_memory_bound_operations_take_their_bytes_and_rowwise_ones_longer() -> None:
    size = 2e9
    plain = step_time(work_of(traced(stream(size))), a100())
    rowwise = step_time(work_of(traced(stream(size, OperationClass.SOFTMAX))), a100())

    assert plain.gpu_s == pytest.approx(size / a100().bytes_per_s + reference().kernel_s)
    share = reference().rowwise_fraction["softmax"]
    assert rowwise.gpu_s == pytest.approx(size / share / a100().bytes_per_s + reference().kernel_s)


def test_what_fits_in_the_cache_moves_less() -> None:
    small, large = 10e6, 400e6
    times = [step_time(work_of(traced(stream(size, count=100))), a100()).gpu_s for size in (small, large)]
    idle_s = 100 * reference().kernel_s

    assert (times[0] - idle_s) / (times[1] - idle_s) == pytest.approx(
        reference().cached_fraction * small / large
    )


def test_many_small_kernels_are_bound_by_the_host() -> None:
    time = step_time(work_of(traced(stream(1e3, count=5000))), a100())

    assert time.host_s == pytest.approx(5000 * reference().launch_s)
    assert time.micro_batch_s == pytest.approx(time.host_s, rel=0.01)


def test_the_optimizer_is_counted_once_per_step() -> None:
    time = step_time(work_of(traced(stream(1e9), stream(3e9, OperationClass.OPTIMIZER))), a100())

    assert time.optimizer_s == pytest.approx(3e9 / a100().bytes_per_s)
    assert time.gpu_s == pytest.approx(1e9 / a100().bytes_per_s + reference().kernel_s)


@pytest.mark.parametrize("gpu", ["P4-8GB", "T4-16GB", "L4-24GB", "A100-SXM4-80GB", "H100-SXM5-80GB"])
@pytest.mark.parametrize("size", [64, 1024, 8192])
def test_no_step_beats_the_roofline(gpu: str, size: int) -> None:
    product = Operation(
        name="aten.mm",
        kind=OperationClass.MATMUL,
        dtype="float32",
        shape=(1, size, size, size),
        count=3,
        flops=2.0 * size**3,
        bytes=12.0 * size**2,
    )
    on = chip(GPUS[gpu], Precision.FP32)
    assert on is not None
    work = work_of(traced(product))

    assert step_time(work, on).micro_batch_s > roofline_s(work, on)


def test_a_convolution_reaches_less_of_the_units_than_of_the_lanes() -> None:
    known = reference()

    on_lanes, on_units = (known.product("convolution", 8.0, is_on_units=units) for units in (False, True))
    attention = [known.product("attention", 9.0, is_on_units=units) for units in (False, True)]

    assert on_units < on_lanes < 1.0
    assert attention[0] == attention[1] < known.product("attention", 8.0, is_on_units=True)
