"""Precision, checkpointing and compilation on a GPU: each trains the same model, and does what it is for."""

from __future__ import annotations

import math

import pytest

from tests.gpu.devices import devices, measured, run, size_for, workload
from trials.trial import Failure, FailureKind, Precision

SIZES = {"gpt2": "124m", "resnet": "50"}
TOLERANCE = {Precision.FP32: 1e-4, Precision.TF32: 0.01, Precision.BF16: 0.05, Precision.FP16: 0.05}


@pytest.fixture(params=sorted(SIZES))
def model(request, monkeypatch, device):
    monkeypatch.setenv("WORKLOAD_SIZE", size_for(device, SIZES[request.param]))
    return workload(request.param)


@pytest.fixture(params=sorted(SIZES))
def tiny_model(request, monkeypatch):
    monkeypatch.setenv("WORKLOAD_SIZE", "tiny")  # a large one takes minutes to compile
    return workload(request.param)


@pytest.mark.parametrize("device", devices())
def test_every_precision_starts_from_the_same_loss_and_learns(model, device) -> None:
    # a CPU has no TF32 units, and emulates fp16 tens of times slower
    precisions = [Precision.FP32, Precision.BF16] if device == "cpu" else list(Precision)
    exact = measured(model, device)
    for precision in precisions:
        outcome = measured(model, device, precision=precision)
        assert outcome.losses[0] == pytest.approx(exact.losses[0], rel=TOLERANCE[precision]), precision
        assert all(map(math.isfinite, outcome.losses)), precision
        assert min(outcome.losses) < outcome.losses[0], precision  # the same batch over and over
        assert outcome.config.precision == precision


@pytest.mark.parametrize("device", devices(is_quick_on_cpu=True))
def test_checkpointing_saves_memory_and_changes_no_loss(device, monkeypatch) -> None:
    monkeypatch.setenv("WORKLOAD_SIZE", size_for(device, "124m"))
    gpt2 = workload("gpt2")
    size = 16 if device == "cpu" else 8
    kept = measured(gpt2, device, micro_batch_size=size)
    again = measured(gpt2, device, micro_batch_size=size, techniques=("activation_checkpointing",))
    assert again.losses[:3] == pytest.approx(kept.losses[:3], rel=1e-3)
    assert max(again.peak_allocated_bytes) < 0.9 * max(kept.peak_allocated_bytes)


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("techniques", [(), ("activation_checkpointing",)], ids=["kept", "checkpointed"])
def test_a_compiled_model_trains_as_the_plain_one(tiny_model, device, techniques) -> None:
    plain = measured(tiny_model, device, precision=Precision.BF16, techniques=techniques)
    outcome = run(tiny_model, device, precision=Precision.BF16, techniques=(*techniques, "compile"))
    if isinstance(outcome, Failure):  # a machine without a compiler says so, and nothing else may fail
        assert outcome.kind is FailureKind.UNSUPPORTED
        assert "compiler" in outcome.reason
        pytest.skip(outcome.reason)
    assert outcome.losses[0] == pytest.approx(plain.losses[0], rel=0.02)
    assert (
        outcome.first_step_s > plain.first_step_s
    )  # compilation is in the first step, not in the timed ones
    assert outcome.step_time_s < outcome.first_step_s
    assert "compile" in outcome.config.techniques
    assert not any(one.startswith("left running") for one in outcome.warnings)  # the compiler's own threads


@pytest.mark.parametrize("device", devices())
def test_a_large_accumulation_needs_no_more_memory_than_a_small_one(device, monkeypatch) -> None:
    monkeypatch.setenv("WORKLOAD_SIZE", size_for(device, "124m"))
    gpt2 = workload("gpt2")
    few = measured(gpt2, device, accumulation=2, precision=Precision.BF16)
    many = measured(gpt2, device, accumulation=16, precision=Precision.BF16)
    assert many.is_interpolated
    assert max(many.peak_allocated_bytes) <= 1.1 * max(few.peak_allocated_bytes)
    assert many.step_time_s > 4 * few.step_time_s  # 8 times the work
