from __future__ import annotations

from dataclasses import replace

import pytest

from catalogs.gpus import load_gpus
from planner.estimate import Basis, Hardware, fit
from tests.builders import GIB, make_config, make_failure, make_measurement, make_profile, make_trace
from trials.measurement import PeakParts
from trials.profile import OperationClass
from trials.trial import Parallelism, Precision

GPUS = load_gpus()
L4 = make_config("L4-24GB")
MIB = 1024**2


def on(name: str) -> Hardware:
    return Hardware(gpu=GPUS[name], link=GPUS[name].link)


def measured(size: int, peak: int):  # type: ignore[no-untyped-def]
    return make_measurement(replace(L4, micro_batch_size=size), peak_memory_bytes=peak)


def test_a_measured_peak_is_itself_with_a_small_margin() -> None:
    found = fit([measured(8, 6 * GIB)], gpus=GPUS).peak_memory_bytes(L4, on("L4-24GB"))

    assert found is not None
    assert found.basis is Basis.MEASURED
    assert found.expected == 6 * GIB
    assert 6 * GIB < found.high < 6.5 * GIB


def test_two_sizes_give_every_other_exactly() -> None:
    estimator = fit([measured(2, 3 * GIB), measured(8, 6 * GIB)], gpus=GPUS)

    found = estimator.peak_memory_bytes(replace(L4, micro_batch_size=16), on("L4-24GB"))

    assert found is not None
    assert found.basis is Basis.INTERPOLATED
    assert found.expected == pytest.approx(10 * GIB)
    assert found.high > found.expected


def test_one_size_leaves_the_slope_open() -> None:
    found = fit([measured(8, 6 * GIB)], gpus=GPUS).peak_memory_bytes(
        replace(L4, micro_batch_size=16), on("L4-24GB")
    )

    assert found is not None
    assert found.low <= 6 * GIB
    assert found.high >= 12 * GIB


def test_another_chip_is_wider_than_the_measured_one() -> None:
    estimator = fit([measured(2, 3 * GIB), measured(8, 6 * GIB)], gpus=GPUS)

    here = estimator.peak_memory_bytes(replace(L4, micro_batch_size=4), on("L4-24GB"))
    there = estimator.peak_memory_bytes(
        replace(L4, gpu="A100-SXM4-80GB", micro_batch_size=4), on("A100-SXM4-80GB")
    )

    assert here is not None
    assert there is not None
    assert there.basis is Basis.PREDICTED
    assert there.expected == pytest.approx(here.expected)
    assert there.high > here.high


def test_sharding_over_eight_workers_takes_the_state_off() -> None:
    profile = make_profile(
        parameter_count=500_000_000,
        trainable_parameter_count=500_000_000,
        block_count=24,
        traces=(),
    )
    estimator = fit([measured(2, 9 * GIB), measured(4, 10 * GIB)], gpus=GPUS, profile=profile)
    sharded = replace(L4, micro_batch_size=4, gpu_count=8, parallelism=Parallelism.FSDP2)
    copied = replace(sharded, parallelism=Parallelism.DDP)

    few, many = (estimator.peak_memory_bytes(one, on("L4-24GB")) for one in (sharded, copied))

    assert few is not None
    assert many is not None
    state = 16 * 500_000_000
    assert few.expected < 10 * GIB - 0.7 * state
    assert many.expected > 10 * GIB  # the buckets of DDP


def test_a_trace_alone_gives_a_peak_with_an_upper_margin() -> None:
    traces = tuple(
        make_trace(
            micro_batch_size=size,
            peak_bytes=16 * MIB + size * MIB,
            peak_accumulating_bytes=20 * MIB + size * MIB,
        )
        for size in (2, 8)
    )
    estimator = fit([], gpus=GPUS, profile=make_profile(traces=traces))

    found = estimator.peak_memory_bytes(replace(L4, micro_batch_size=4, accumulation=1), on("L4-24GB"))

    assert found is not None
    assert found.basis is Basis.PREDICTED
    assert found.expected == pytest.approx(20 * MIB * 1.05, rel=0.02)  # fragmentation
    assert found.high > 1.1 * found.expected


def test_what_ran_out_of_memory_does_not_fit() -> None:
    failed = make_failure(replace(L4, micro_batch_size=32))
    estimator = fit([measured(2, 3 * GIB), measured(8, 6 * GIB), failed], gpus=GPUS)

    beyond = estimator.peak_memory_bytes(replace(L4, micro_batch_size=64), on("L4-24GB"))
    other = estimator.peak_memory_bytes(
        replace(L4, micro_batch_size=64, precision=Precision.BF16), on("L4-24GB")
    )

    assert beyond is not None
    assert other is not None
    assert beyond.high >= GPUS["L4-24GB"].memory_bytes
    assert other.high > 0


def test_passes_that_grow_under_the_peak_of_the_update_are_seen_to_grow() -> None:
    """Of small sizes the update is the fullest moment: the whole peak tells no slope."""
    parts = [
        PeakParts(base_bytes=4 * GIB, passes_bytes=(4 + size // 2) * GIB, update_bytes=9 * GIB)
        for size in (2, 8)
    ]
    estimator = fit(
        [
            replace(measured(size, 9 * GIB), peak_parts=one, peak_allocated_bytes=(9 * GIB,))
            for size, one in zip((2, 8), parts, strict=True)
        ],
        gpus=GPUS,
    )

    def expected(size: int) -> float:
        found = estimator.peak_memory_bytes(replace(L4, micro_batch_size=size), on("L4-24GB"))
        assert found is not None
        return found.expected

    assert expected(4) == 9 * GIB
    assert expected(16) == pytest.approx(12 * GIB)


def test_what_the_allocator_cannot_use_is_added_to_the_parts() -> None:
    parts = PeakParts(base_bytes=2 * GIB, passes_bytes=8 * GIB, update_bytes=4 * GIB)
    one = replace(measured(8, 10 * GIB), peak_allocated_bytes=(8 * GIB,), peak_parts=parts)
    assert one.peak_parts_as_reserved == PeakParts(
        base_bytes=int(2.5 * GIB), passes_bytes=10 * GIB, update_bytes=5 * GIB
    )


def in_parts(size: int, accumulation: int, gradients: int, slope: int = GIB // 4):  # type: ignore[no-untyped-def]
    """Peaks of a model that holds 4 GiB, and its gradients too from the second micro batch on."""
    base = 4 * GIB + (gradients if accumulation > 1 else 0)
    parts = PeakParts(base_bytes=base, passes_bytes=base + slope * size, update_bytes=5 * GIB)
    config = replace(L4, micro_batch_size=size, accumulation=accumulation)
    peak = max(parts.passes_bytes, parts.update_bytes)
    return make_measurement(config, peak_memory_bytes=peak, peak_parts=parts)


@pytest.mark.parametrize(("size", "accumulation"), [(32, 1), (32, 2), (64, 1), (24, 4)])
def test_a_step_s_only_micro_batch_has_no_gradients_beside_it(size: int, accumulation: int) -> None:
    seen = [in_parts(8, 8, 2 * GIB), in_parts(16, 4, 2 * GIB), in_parts(48, 1, 2 * GIB)]
    true = in_parts(size, accumulation, 2 * GIB)
    found = fit(seen, gpus=GPUS).peak_memory_bytes(true.config, on("L4-24GB"))
    assert found is not None
    assert found.expected == pytest.approx(true.peak_memory_bytes, rel=0.001)


def test_gradients_are_those_of_the_model_where_no_trial_shows_them() -> None:
    profile = make_profile(traces=(make_trace(gradient_bytes=2 * GIB),))
    seen = [in_parts(8, 8, 2 * GIB), in_parts(16, 4, 2 * GIB)]
    true = in_parts(48, 1, 2 * GIB)
    found = fit(seen, gpus=GPUS, profile=profile).peak_memory_bytes(true.config, on("L4-24GB"))
    assert found is not None
    assert found.expected == pytest.approx(true.peak_memory_bytes, rel=0.001)


def test_out_of_memory_without_compilation_says_nothing_of_the_compiled_step() -> None:
    outcomes = [measured(2, 3 * GIB), make_failure(replace(L4, micro_batch_size=8))]
    estimator = fit(outcomes, gpus=GPUS)

    eager = estimator.peak_memory_bytes(replace(L4, micro_batch_size=8), on(L4.gpu))
    compiled = estimator.peak_memory_bytes(
        replace(L4, micro_batch_size=8, techniques=("compile",)), on(L4.gpu)
    )

    assert eager is not None
    assert compiled is not None
    assert eager.expected >= GPUS[L4.gpu].memory_bytes > compiled.expected


def traced(size: int, precision: str = Precision.FP32, per_sample: int = 20 * MIB):  # type: ignore[no-untyped-def]
    """Of 16 MB of state, of which 4 MB are gradients; the update takes a temporary of 4 MB more."""
    passes, update = 16_000_000 + size * per_sample, 20_000_000 + 100 * MIB
    return make_trace(
        micro_batch_size=size,
        precision=precision,
        peak_bytes=max(passes - 4_000_000, update),
        peak_accumulating_bytes=max(passes, update),
        passes_bytes=passes,
        update_bytes=update,
    )


def test_small_traced_batches_that_peak_in_the_update_still_tell_the_activations() -> None:
    profile = make_profile(traces=(traced(2), traced(4)))
    estimator = fit([], gpus=GPUS, profile=profile)

    small, large, kept = (
        estimator.peak_memory_bytes(replace(L4, micro_batch_size=size, accumulation=count), on(L4.gpu))
        for size, count in ((2, 2), (128, 1), (128, 2))
    )

    assert small is not None
    assert large is not None
    assert kept is not None
    assert small.expected == pytest.approx(1.05 * (20_000_000 + 100 * MIB), rel=0.01)
    assert kept.expected == pytest.approx(1.05 * (16_000_000 + 128 * 20 * MIB), rel=0.01)
    assert kept.expected - large.expected == pytest.approx(1.05 * 4_000_000, rel=0.01)


def test_fp16_has_the_trace_of_bf16() -> None:
    half = [traced(size, Precision.BF16, per_sample=10 * MIB) for size in (2, 8)]
    profile = make_profile(traces=(traced(2), traced(8), *half))
    estimator = fit([], gpus=GPUS, profile=profile)
    config = replace(L4, micro_batch_size=64, accumulation=2)

    fp32, tf32, bf16, fp16 = (
        estimator.peak_memory_bytes(replace(config, precision=one), on(L4.gpu))
        for one in (Precision.FP32, Precision.TF32, Precision.BF16, Precision.FP16)
    )

    assert fp32 == tf32
    assert fp16 == bf16
    assert fp16 is not None
    assert fp32 is not None
    assert fp16.expected < 0.6 * fp32.expected


def test_maps_of_convolutions_leave_more_of_what_is_reserved_unused() -> None:
    convolution = replace(make_trace().operations[0], kind=OperationClass.CONVOLUTION)
    plain = [traced(size) for size in (2, 8)]
    convolved = [replace(one, operations=(convolution,)) for one in plain]
    config = replace(L4, micro_batch_size=64, accumulation=2)

    products, maps = (
        fit([], gpus=GPUS, profile=make_profile(traces=tuple(one))).peak_memory_bytes(config, on(L4.gpu))
        for one in (plain, convolved)
    )

    assert products is not None
    assert maps is not None
    assert maps.expected / products.expected == pytest.approx(1.13 / 1.05)
