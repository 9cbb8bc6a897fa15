"""Achieved share of the peak, against numbers computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.estimate.time.peak_fraction import micro_batch_flops, peak_fraction
from tests.builders import make_config, make_cpu, make_environment, make_gpu, make_measurement
from trials.profile import Operation, OperationClass, Trace, TraceMode
from trials.trial import Precision

GPUS = {"L4-24GB": make_gpu(), "CPU-X86": make_cpu()}  # 121e12 in bf16; 50e9 per vCPU in fp32


def operation(flops: float, name: str = "aten.mm", kind: OperationClass = OperationClass.MATMUL) -> Operation:
    return Operation(
        name=name, kind=kind, dtype="bfloat16", shape=(1, 1, 1, 1), count=2, flops=flops, bytes=1.0
    )


def trace(micro_batch_size: int, *operations: Operation, techniques: tuple[str, ...] = ()) -> Trace:
    return Trace(
        micro_batch_size=micro_batch_size,
        precision=Precision.BF16,
        techniques=techniques,
        operations=operations,
        peak_bytes=1,
        parameter_bytes=1,
        gradient_bytes=1,
        optimizer_bytes=1,
    )


def test_the_share_is_flops_over_time_and_peak() -> None:
    config = make_config(micro_batch_size=4, accumulation=3, precision=Precision.BF16)
    measured = make_measurement(config, step_time_s=0.5)
    fraction = peak_fraction(measured, [trace(2, operation(1e12)), trace(8, operation(4e12))], GPUS)
    assert fraction == pytest.approx(2 * 2e12 * 3 / 0.5 / 121e12)  # 4e12 per micro batch of 4


def test_workers_share_neither_flops_nor_peak() -> None:
    traces = [trace(8, operation(1e12))]
    one = make_measurement(make_config(gpu_count=1), step_time_s=1.0)
    four = make_measurement(make_config(gpu_count=4), step_time_s=1.0)
    assert peak_fraction(four, traces, GPUS) == pytest.approx(peak_fraction(one, traces, GPUS))


def test_what_is_computed_again_is_no_achievement() -> None:
    plain = trace(8, operation(1e12))
    again = trace(8, operation(4 / 3 * 1e12), techniques=("activation_checkpointing",))
    assert micro_batch_flops([plain, again], 8) == micro_batch_flops([plain], 8) == 2e12
    backward = operation(5e12, "aten._scaled_dot_product_flash_attention_backward", OperationClass.ATTENTION)
    assert micro_batch_flops([trace(8, backward)], 8) == pytest.approx(2 * 4e12)


def test_a_cpu_counts_all_its_vcpus() -> None:
    host = make_environment(host_cpu_count=16, threads_per_worker=16)
    measured = make_measurement(make_config("CPU-X86", accumulation=1), step_time_s=1.0, environment=host)
    assert peak_fraction(measured, [trace(8, operation(1e11))], GPUS) == pytest.approx(2e11 / (16 * 50e9))


@pytest.mark.parametrize(
    "traces",
    [
        [],
        [trace(8, operation(1.0), techniques=("activation_checkpointing",))],
        [replace(trace(8), mode=TraceMode.INFERENCE)],
    ],
)
def test_without_a_training_trace_the_share_is_unknown(traces: list[Trace]) -> None:
    assert peak_fraction(make_measurement(), traces, GPUS) is None


def test_without_the_unit_or_the_chip_the_share_is_unknown() -> None:
    traces = [trace(8, operation(1.0))]
    no_unit = {"L4-24GB": make_gpu(bf16_flop_per_s=None)}
    assert peak_fraction(make_measurement(make_config(precision=Precision.BF16)), traces, no_unit) is None
    assert peak_fraction(make_measurement(), traces, {}) is None
