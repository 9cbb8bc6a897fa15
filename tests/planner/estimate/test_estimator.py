from __future__ import annotations

import math
from dataclasses import replace

import pytest

from catalogs.gpus import DeviceKind, load_gpus
from planner.estimate import Basis, Estimator, Hardware, fit
from planner.estimate.interval.lognormal import log_spread, median_of
from planner.estimate.time.chips import chip
from planner.estimate.time.operations import roofline_s, work_of
from tests.builders import make_config, make_environment, make_measurement, make_profile, make_trace
from trials.profile import Operation, OperationClass, Trace
from trials.trial import Parallelism, Precision, TrialConfig

GPUS = load_gpus()
L4 = make_config("L4-24GB", precision=Precision.BF16)


def on(config: TrialConfig, vcpus: int | None = None) -> Hardware:
    gpu = GPUS[config.gpu]
    return Hardware(gpu=gpu, link=gpu.link, vcpus=vcpus)


def transformer(size: int, precision: Precision = Precision.BF16) -> Trace:
    """Products of 1,024 tokens a sample, and elementwise work."""
    rows = size * 1024
    dtype = "bfloat16" if precision == Precision.BF16 else "float32"
    product = Operation(
        name="aten.mm", kind=OperationClass.MATMUL, dtype=dtype, shape=(1, rows, 4096, 4096), count=72,
        flops=2.0 * rows * 4096**2, bytes=2.0 * (2 * rows * 4096 + 4096**2),
    )  # fmt: skip
    stream = Operation(
        name="aten.add", kind=OperationClass.ELEMENTWISE, dtype=dtype, shape=(rows, 4096), count=200,
        flops=0.0, bytes=6.0 * rows * 4096,
    )  # fmt: skip
    return make_trace(micro_batch_size=size, precision=precision, operations=(product, stream))


@pytest.fixture
def estimator() -> Estimator:
    """One L4: three micro batch sizes of an exact line, 0.1 s and 0.05 s a sample."""
    measured = [
        make_measurement(
            replace(L4, micro_batch_size=size, accumulation=32 // size),
            step_time_s=0.1 + 32 // size * 0.05 * size,
        )
        for size in (2, 4, 8)
    ]
    return fit(measured, gpus=GPUS)


def test_a_measured_configuration_is_its_measurement(estimator: Estimator) -> None:
    found = estimator.step_time_s(replace(L4, micro_batch_size=4, accumulation=8), on(L4))

    assert found is not None
    assert found.basis is Basis.MEASURED
    assert found.expected == pytest.approx(1.7)
    assert found.low < 1.7 < found.high < 1.8


def test_another_batch_of_a_measured_setting_is_interpolated(estimator: Estimator) -> None:
    found = estimator.step_time_s(replace(L4, micro_batch_size=16, accumulation=2), on(L4))

    assert found is not None
    assert found.basis is Basis.INTERPOLATED
    assert found.expected == pytest.approx(1.7, rel=0.03)


def test_far_from_the_measured_sizes_it_is_a_prediction(estimator: Estimator) -> None:
    found = estimator.step_time_s(replace(L4, micro_batch_size=64, accumulation=1), on(L4))

    assert found is not None
    assert found.basis is Basis.PREDICTED


@pytest.mark.parametrize("gpu", ["A100-SXM4-80GB", "H100-SXM5-80GB"])
def test_a_faster_chip_is_predicted_faster_within_its_figures(estimator: Estimator, gpu: str) -> None:
    config = replace(L4, gpu=gpu)
    found, slow = estimator.step_time_s(config, on(config)), estimator.step_time_s(L4, on(L4))

    assert found is not None
    assert slow is not None
    assert found.basis is Basis.PREDICTED
    before, after = chip(GPUS["L4-24GB"], L4.precision), chip(GPUS[gpu], L4.precision)
    assert before is not None
    assert after is not None
    gains = [
        after.sustained_flop_per_s / before.sustained_flop_per_s,
        after.bytes_per_s / before.bytes_per_s,
    ]
    assert slow.expected / max(gains) * 0.95 < found.expected < slow.expected
    assert found.high / found.low > 1.3  # one chip, no trace


def test_throughput_is_the_batch_over_the_step(estimator: Estimator) -> None:
    step, rate = estimator.step_time_s(L4, on(L4)), estimator.throughput_per_s(L4, on(L4))

    assert step is not None
    assert rate is not None
    assert rate.expected == pytest.approx(32 / step.expected)
    assert rate.low == pytest.approx(32 / step.high)


def test_a_precision_without_a_unit_cannot_be_estimated(estimator: Estimator) -> None:
    config = replace(L4, gpu="T4-16GB")

    assert estimator.step_time_s(config, on(config)) is None


def test_an_unmeasured_precision_is_slower_on_plain_lanes(estimator: Estimator) -> None:
    config = replace(L4, precision=Precision.FP32)
    found, fast = estimator.step_time_s(config, on(config)), estimator.step_time_s(L4, on(L4))

    assert found is not None
    assert fast is not None
    assert found.basis is Basis.PREDICTED
    assert 1.2 < found.expected / fast.expected < 9.0


def test_more_workers_take_longer_per_step_of_equal_micro_batches(estimator: Estimator) -> None:
    one, eight = (
        replace(L4, gpu_count=count, parallelism=Parallelism.DDP if count > 1 else Parallelism.SINGLE)
        for count in (1, 8)
    )
    alone, together = (estimator.step_time_s(config, on(config)) for config in (one, eight))

    assert alone is not None
    assert together is not None
    assert together.expected > alone.expected
    assert together.high / together.low > alone.high / alone.low


def test_nothing_known_gives_nothing() -> None:
    empty = fit([], gpus=GPUS)

    assert empty.step_time_s(L4, on(L4)) is None
    assert empty.throughput_per_s(L4, on(L4)) is None
    assert empty.peak_memory_bytes(L4, on(L4)) is None


def test_a_trace_alone_carries_an_estimate_that_no_roofline_forbids() -> None:
    profile = make_profile(traces=(transformer(2), transformer(8)))
    alone = fit([], gpus=GPUS, profile=profile)

    for name, gpu in GPUS.items():
        config = replace(L4, gpu=name)
        found = alone.step_time_s(config, on(config))
        figures = chip(gpu, config.precision)
        if gpu.kind is DeviceKind.CPU or figures is None:
            continue
        assert found is not None
        assert found.basis is Basis.PREDICTED
        assert found.low >= config.accumulation * roofline_s(work_of(transformer(8)), figures)


def test_a_measurement_slower_than_the_trace_slows_other_chips_too() -> None:
    profile = make_profile(traces=(transformer(2), transformer(8)))
    target = replace(L4, gpu="A100-SXM4-80GB")
    alone = fit([], gpus=GPUS, profile=profile).step_time_s(L4, on(L4))
    assert alone is not None

    times = []
    for factor in (1.0, 1.3):
        measured = make_measurement(L4, step_time_s=factor * alone.expected)
        found = fit([measured], gpus=GPUS, profile=profile).step_time_s(target, on(target))
        assert found is not None
        times.append(found.expected)

    assert times[1] / times[0] == pytest.approx(1.3, rel=0.08)


def test_from_a_cpu_to_a_gpu_is_allowed_and_very_wide() -> None:
    cpu = make_config("CPU-X86-64")
    measured = make_measurement(
        cpu, step_time_s=20.0, environment=make_environment(host_cpu_count=8, device_name="Xeon")
    )
    estimator = fit([measured], gpus=GPUS)
    target = replace(cpu, gpu="L4-24GB")

    same = estimator.step_time_s(cpu, on(cpu, vcpus=8))
    larger = estimator.step_time_s(cpu, on(cpu, vcpus=32))
    found = estimator.step_time_s(target, on(target))

    assert same is not None
    assert same.basis is Basis.MEASURED
    assert larger is not None
    assert larger.basis is Basis.PREDICTED
    assert larger.expected < 20.0
    assert found is not None
    assert found.expected < 5.0
    assert found.high / found.low > 4.0


def test_a_cpu_trial_on_half_the_cores_is_not_measured_on_all() -> None:
    cpu = make_config("CPU-X86-64")
    host = make_environment(host_cpu_count=8, threads_per_worker=4, device_name="Xeon")
    estimator = fit([make_measurement(cpu, step_time_s=20.0, environment=host)], gpus=GPUS)

    half, all_ = (estimator.step_time_s(cpu, on(cpu, vcpus=count)) for count in (4, 8))

    assert half is not None
    assert all_ is not None
    assert (half.basis, all_.basis) == (Basis.MEASURED, Basis.PREDICTED)
    assert all_.expected < half.expected


def test_a_precision_that_was_measured_is_not_predicted_from_another() -> None:
    """bf16 is no faster than fp32 on this CPU, whatever its data sheet says, nor with two workers."""
    host = make_environment(host_cpu_count=2, threads_per_worker=2, device_name="Xeon")
    fp32 = replace(make_config("CPU-X86-64"), micro_batch_size=32, accumulation=2)
    bf16 = replace(fp32, precision=Precision.BF16, micro_batch_size=64, accumulation=1)
    known = [
        make_measurement(one, step_time_s=10.0, environment=host)
        for one in (replace(fp32, micro_batch_size=8, accumulation=8), fp32, bf16)
    ]
    pair = replace(bf16, micro_batch_size=32, gpu_count=2, parallelism=Parallelism.DDP)

    found = fit(known, gpus=GPUS, profile=make_profile()).step_time_s(pair, on(pair, vcpus=4))

    assert found is not None
    assert median_of(found.expected, log_spread(found, 0.9)) == pytest.approx(5.0, rel=0.15)


def test_less_confidence_is_a_narrower_interval() -> None:
    config = replace(L4, gpu="A100-SXM4-80GB")
    widths = []
    for confidence in (0.5, 0.8, 0.9, 0.95):
        measured = make_measurement(L4, step_time_s=2.0)
        found = fit([measured], gpus=GPUS, confidence=confidence).step_time_s(config, on(config))
        assert found is not None
        widths.append(math.log(found.high / found.low))

    assert widths == sorted(widths)
    assert widths[0] < 0.6 * widths[-1]


def test_two_measured_chips_are_worth_more_than_one() -> None:
    l4, a100 = L4, replace(L4, gpu="A100-SXM4-80GB")
    target = replace(L4, gpu="H100-SXM5-80GB")
    one = fit([make_measurement(l4, step_time_s=2.0)], gpus=GPUS)
    two = fit([make_measurement(l4, step_time_s=2.0), make_measurement(a100, step_time_s=0.45)], gpus=GPUS)

    found = [estimator.step_time_s(target, on(target)) for estimator in (one, two)]

    assert found[0] is not None
    assert found[1] is not None
    assert found[1].high / found[1].low < found[0].high / found[0].low
