"""The order in which a grid is recorded, against a fake GPU whose memory ends at a known size."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.grid import Seen, doubling, expected_s, next_config, seen_of
from planner.estimate.setting import technique_of
from planner.plans.space import configs_for
from tests.builders import make_config, make_failure, make_gpu, make_measurement, make_profile, make_target
from tests.fake_gpu import FakeGpu
from trials.measurement import Outcome
from trials.trial import FailureKind, Precision, TrialConfig

GRID = configs_for(make_target(global_batch_size=480), make_gpu(), 1, 1, make_profile())


def recorded(gpu: FakeGpu, limit_s: float = 1e9, count: int = 10_000) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for _ in range(count):
        config = next_config(GRID, outcomes, limit_s)
        if config is None:
            break
        outcomes.append(gpu.run_trial(config))
    return outcomes


def test_all_that_fits_is_recorded_once_and_the_least_that_does_not() -> None:
    gpu = FakeGpu()
    outcomes = recorded(gpu)
    tried = [one.config for one in outcomes]
    assert len(tried) == len(set(tried))
    assert {one for one in GRID if gpu.peak_bytes(one) <= gpu.memory_bytes} <= set(tried)
    lines = itertools.groupby(
        GRID,
        key=lambda one: (
            ("compile" in one.techniques),
            ("activation_checkpointing" in one.techniques),
            one.precision,
        ),
    )
    for _, line in lines:
        least = min(
            (one for one in line if gpu.peak_bytes(one) > gpu.memory_bytes),
            key=lambda one: one.micro_batch_size,
        )
        assert least in tried


def test_doubling_sizes_come_first_and_the_compiler_after_the_boundary() -> None:
    outcomes = recorded(FakeGpu())
    first = [one.config for one in outcomes[:5]]
    assert [one.micro_batch_size for one in first] == [1, 2, 4, 8, 16]
    assert {one.precision for one in first} == {Precision.BF16}
    compiled = [index for index, one in enumerate(outcomes) if ("compile" in one.config.techniques)]
    plain = make_config(micro_batch_size=1, accumulation=480, precision=Precision.BF16)
    for known in (outcomes[: compiled[0]], outcomes):
        assert seen_of(known)[technique_of(plain)].gap == (120, 160)


def test_what_would_take_too_long_is_left_out() -> None:
    gpu = FakeGpu(per_sample_s=0.1)
    outcomes = recorded(gpu, limit_s=30.0)
    sizes = {one.config.micro_batch_size for one in outcomes if one.config.precision == Precision.FP32}
    assert {1, 2, 4} <= sizes
    assert (
        max(sizes) <= 8
    )  # 12 steps of 4 micro batches of 8 at 0.1 s a sample are 38 s; unseen ones cost a try


def test_the_expected_time_counts_the_steps_of_a_large_accumulation_as_they_are_timed() -> None:
    measured = make_measurement(make_config(micro_batch_size=4, accumulation=120), step_time_s=4.8)
    (seen,) = seen_of([measured]).values()  # 100 samples a second
    assert expected_s(make_config(micro_batch_size=8, accumulation=60), seen) == pytest.approx(
        12 * 4 * 8 / 100
    )
    assert expected_s(make_config(micro_batch_size=160, accumulation=3), seen) == pytest.approx(
        12 * 480 / 100
    )
    assert expected_s(make_config(), Seen()) == 0.0


def test_an_unsupported_technique_is_not_tried_at_every_size() -> None:
    class NoCompiler(FakeGpu):
        def run_trial(self, config: TrialConfig) -> Outcome:
            if "compile" in config.techniques:
                return make_failure(config, kind=FailureKind.UNSUPPORTED, reason="no compiler")
            return super().run_trial(config)

    techniques = [
        (one.config.precision, ("activation_checkpointing" in one.config.techniques))
        for one in recorded(NoCompiler())
        if ("compile" in one.config.techniques)
    ]
    assert len(techniques) == len(set(techniques)) == 8


def test_doubling() -> None:
    assert doubling([3, 1, 2, 5, 4, 480, 8, 15]) == {1, 2, 4, 8, 480}
