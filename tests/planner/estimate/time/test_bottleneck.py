"""Classification over exact phases; real models, where timing decides, are in benchmarks/bound.py."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from planner.estimate import Basis, Hardware, fit
from planner.estimate.interval.lognormal import log_spread, median_of
from planner.estimate.time.bottleneck import BottleneckKind, bottleneck_of
from planner.estimate.time.loading import (
    PREFETCH_COUNT,
    Loaders,
    best_loaders,
    loader_speed_ratio,
    loading_variants,
    otherwise_loaded,
)
from tests.builders import make_config, make_environment, make_gpu, make_measurement, make_profile
from trials.measurement import Measurement, Phases
from trials.profile import WorkloadProfile
from trials.trial import Parallelism

L4 = make_gpu()


def with_operation(flops: float, bytes_: float, parameter_bytes: int = 4_000_000) -> WorkloadProfile:
    (trace,) = make_profile().traces
    operation = replace(trace.operations[0], flops=flops, bytes=bytes_, count=1)
    return make_profile(
        traces=(replace(trace, operations=(operation,), parameter_bytes=parameter_bytes),),
    )


PROFILE = with_operation(1e9, 1e6)  # far on the arithmetic side of any ridge


def a_step(host_cpu_count: int = 8, cuda: str | None = "12.4", **seconds: float) -> Measurement:
    """A step of one second unless its phases say otherwise; what they do not name is forward and backward."""
    sync_s = seconds.get("gradient_sync_s", 0.0)
    left_s = 1.0 - sum(value for name, value in seconds.items() if name != "launch_s")
    phases = Phases(
        **{
            "data_wait_s": 0.0,
            "host_to_device_s": 0.0,
            "forward_backward_s": left_s,
            "gradient_sync_s": sync_s,
            "optimizer_s": 0.0,
            "other_s": 0.0,
        }
        | seconds
    )
    config = (
        make_config(gpu_count=2, parallelism=Parallelism.DDP, accumulation=2) if sync_s else make_config()
    )
    return make_measurement(
        config,
        step_time_s=1.0,
        phases=phases,
        environment=make_environment(host_cpu_count=host_cpu_count, cuda=cuda),
    )


@pytest.mark.parametrize(
    ("step", "bound", "faster"),
    [
        (a_step(data_wait_s=0.6), BottleneckKind.INPUT, 1 / 0.8),
        (a_step(data_wait_s=0.3, host_to_device_s=0.3), BottleneckKind.INPUT, 1 / 0.8),
        (a_step(launch_s=0.8), BottleneckKind.LAUNCH, 1 / 0.9),
        (a_step(launch_s=0.3, other_s=0.4), BottleneckKind.LAUNCH, 1 / 0.85),
        (a_step(gradient_sync_s=0.7), BottleneckKind.COMMUNICATION, 1 / 0.85),
        (a_step(launch_s=0.1), BottleneckKind.COMPUTE, 1 / 0.55),
        (a_step(forward_backward_s=0.5, optimizer_s=0.5), BottleneckKind.COMPUTE, 2.0),
    ],
)
def test_the_part_that_takes_the_longest_binds(
    step: Measurement, bound: BottleneckKind, faster: float
) -> None:
    found = bottleneck_of(step, PROFILE, L4)
    assert found is not None
    assert found.bound is bound
    assert found.faster_gpu_ratio == pytest.approx(faster)


def test_the_roofline_tells_arithmetic_from_memory() -> None:
    ridge = L4.fp32_flop_per_s / L4.bandwidth_bytes_per_s
    for flops, bound in ((ridge * 1.1e6, BottleneckKind.COMPUTE), (ridge * 0.9e6, BottleneckKind.MEMORY)):
        found = bottleneck_of(a_step(), with_operation(flops, 1e6), L4)
        assert found is not None
        assert (found.bound, found.fraction, found.faster_gpu_ratio) == (bound, 1.0, 2.0)


def test_what_no_smaller_batch_avoids_is_memory_where_reading_the_weights_explains_it() -> None:
    heavy = int(0.1 * L4.bandwidth_bytes_per_s)  # three readings in four micro batches: 1.2 s
    found = bottleneck_of(a_step(launch_s=0.9), with_operation(1e9, 1e6, parameter_bytes=heavy), L4)
    assert found is not None
    assert found.bound is BottleneckKind.MEMORY
    assert found.faster_gpu_ratio == pytest.approx(2.0)


def test_without_a_trace_or_the_chips_figures_only_the_device_is_named() -> None:
    for profile, gpu in ((None, L4), (make_profile(traces=()), L4), (PROFILE, None)):
        found = bottleneck_of(a_step(), profile, gpu)
        assert found is not None
        assert found.bound is BottleneckKind.DEVICE


def test_nothing_is_said_without_phases() -> None:
    assert bottleneck_of(make_measurement(), PROFILE, L4) is None


def test_loader_workers_hide_the_wait_behind_the_step() -> None:
    step = a_step(data_wait_s=0.8)
    assert loader_speed_ratio(step, 1) == pytest.approx(1 / 0.8)
    assert loader_speed_ratio(step, 2) == pytest.approx(1 / 0.4)
    assert loader_speed_ratio(step, 8) == pytest.approx(1 / 0.2)  # no shorter than the rest
    assert best_loaders(step) == Loaders(worker_count=4, speed_ratio=pytest.approx(5.0))
    assert best_loaders(a_step(data_wait_s=0.04)) is None


def test_more_loader_workers_than_cores_are_of_no_use() -> None:
    assert loader_speed_ratio(a_step(data_wait_s=0.8, host_cpu_count=2), 8) == pytest.approx(1 / 0.4)


def test_on_a_cpu_loaders_take_cores_from_the_step() -> None:
    step = a_step(data_wait_s=0.5)
    host = make_environment(host_cpu_count=2, threads_per_worker=2)
    shared = make_measurement(step.config, step_time_s=1.0, phases=step.phases, environment=host)
    assert loader_speed_ratio(shared, 2) == pytest.approx(1 / 0.75)  # 0.5 s on two cores, 0.5 s on one


def test_loaders_that_are_there_are_counted() -> None:
    step = a_step(data_wait_s=0.5)
    busy = make_measurement(
        replace(step.config, loader_worker_count=2), step_time_s=1.0, phases=step.phases,
        environment=make_environment(host_cpu_count=16),
    )  # fmt: skip
    assert loader_speed_ratio(busy, 2) == pytest.approx(1.0)
    assert loader_speed_ratio(busy, 4) == pytest.approx(2.0)


def test_loaders_are_named_only_for_a_dataset() -> None:
    step = a_step(data_wait_s=0.8)
    with_data, without = (
        bottleneck_of(step, PROFILE, L4),
        bottleneck_of(step, make_profile(dataset_size=None), L4),
    )
    assert with_data is not None
    assert with_data.loaders is not None
    assert without is not None
    assert without.loaders is None


def test_loader_workers_are_proposed_where_they_pay_and_only_for_a_dataset_with_a_length() -> None:
    step = a_step(data_wait_s=0.8, cuda=None)
    (variant,) = loading_variants([step, a_step(data_wait_s=0.01)], PROFILE)
    assert variant == replace(step.config, loader_worker_count=4)
    assert loading_variants([step], make_profile(dataset_size=None)) == ()


def test_what_still_waits_with_loader_workers_is_tried_with_more_batches_ahead_of_it() -> None:
    config = replace(make_config(), loader_worker_count=4)
    waiting = replace(a_step(data_wait_s=0.3, cuda=None), config=config)
    (variant,) = loading_variants([waiting], PROFILE)
    assert variant == replace(config, loader_prefetch_count=PREFETCH_COUNT)
    assert loading_variants([replace(waiting, config=variant)], PROFILE) == ()
    speed, spread = otherwise_loaded(waiting, variant.loading)
    assert 1 < speed < 1 / 0.7
    assert speed * math.exp(spread) == pytest.approx(1 / 0.7)  # all of the wait is gone, at best


def test_memory_that_is_not_pinned_is_tried_on_cuda_where_data_or_copy_take_long() -> None:
    config = replace(make_config(), loader_worker_count=4, loader_prefetch_count=8)
    copying = replace(a_step(host_to_device_s=0.2), config=config)
    assert loading_variants([copying], PROFILE) == (replace(config, is_pinned=False),)
    assert loading_variants([replace(a_step(host_to_device_s=0.01), config=config)], PROFILE) == ()
    found = fit([copying], gpus={L4.name: L4}, profile=PROFILE).step_time_s(
        replace(config, is_pinned=False), Hardware(gpu=L4, link=L4.link, vcpus=8)
    )
    assert found is not None
    assert median_of(found.expected, log_spread(found, 0.9)) == pytest.approx(1.0)  # it may win or lose
    assert found.low < 0.9
    assert found.high > 1.1


def test_a_step_with_loader_workers_is_estimated_from_the_phases_of_the_same_without() -> None:
    step = a_step(data_wait_s=0.8)
    estimator = fit([step], gpus={L4.name: L4}, profile=PROFILE)
    here = Hardware(gpu=L4, link=L4.link, vcpus=8)
    found = estimator.step_time_s(replace(step.config, loader_worker_count=4), here)
    assert found is not None
    assert median_of(found.expected, log_spread(found, 0.9)) == pytest.approx(0.2)
    assert found.low < 0.2 < found.high
    assert found.basis is Basis.PREDICTED
    other = replace(step.config, micro_batch_size=16, accumulation=2, loader_worker_count=4)
    assert estimator.step_time_s(other, here) is None  # its wait was not measured


def test_steps_with_loader_workers_say_nothing_of_those_without() -> None:
    step = a_step(data_wait_s=0.8)
    fast = make_measurement(replace(step.config, loader_worker_count=4), step_time_s=0.25)
    here = Hardware(gpu=L4, link=L4.link, vcpus=8)
    wanted = replace(step.config, micro_batch_size=16, accumulation=2)
    alone, both = (fit(known, gpus={L4.name: L4}, profile=PROFILE) for known in ([step], [step, fast]))
    assert both.step_time_s(wanted, here) == alone.step_time_s(wanted, here)
    measured = both.step_time_s(fast.config, here)
    assert measured is not None
    assert measured.expected == 0.25


def test_what_is_traced_at_small_batches_is_brought_to_the_one_that_was_measured() -> None:
    """Weights are read whatever the batch: products over few samples are bound by memory, over many not."""
    (trace,) = make_profile().traces
    ridge = L4.fp32_flop_per_s / L4.bandwidth_bytes_per_s
    traces = tuple(
        replace(
            trace,
            micro_batch_size=size,
            operations=(replace(trace.operations[0], flops=1e6 * size, bytes=64e6 / ridge),),
        )
        for size in (2, 8)
    )
    profile = make_profile(traces=traces)

    def bound(size: int) -> BottleneckKind:
        step = replace(a_step(), config=make_config(micro_batch_size=size))
        found = bottleneck_of(step, profile, L4)
        assert found is not None
        return found.bound

    assert bound(8) is BottleneckKind.MEMORY
    assert bound(128) is BottleneckKind.COMPUTE
