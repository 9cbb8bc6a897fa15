"""What a trial says of the GPU: identity, telemetry, FLOPs and peak memory against what is known."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from catalogs.gpus import load_gpus, match_device
from planner.estimate.time.peak_fraction import micro_batch_flops, peak_fraction
from tests.gpu.devices import catalog_name, devices, measured, on_gpu, size_for, workload
from trials.measuring.measure import MeasureSettings
from trials.model_file.loader import move_to, one_batch
from trials.model_file.workload import load
from trials.profile import OperationClass
from trials.trace.tracing import trace_step
from trials.trial import Precision

LONG_ENOUGH = MeasureSettings(timed_min=40, timed_max=200, max_s=5.0, half_width_fraction=0.0)


@pytest.mark.parametrize("device", [on_gpu])
def test_telemetry_is_there_and_sane(device, monkeypatch) -> None:
    monkeypatch.setenv("WORKLOAD_SIZE", "124m")
    outcome = measured(workload("gpt2"), device, LONG_ENOUGH, micro_batch_size=8, precision=Precision.BF16)
    told = outcome.telemetry
    assert told is not None, "NVML did not answer"
    assert told.sample_count >= 10
    assert told.gpu_utilisation_fraction is not None
    assert 0.5 < told.gpu_utilisation_fraction <= 1.0
    assert told.sm_clock_hz is not None
    assert told.sm_clock_max_hz is not None
    assert 0.3e9 < told.sm_clock_hz <= told.sm_clock_max_hz < 4e9
    assert told.power_w is not None
    assert told.power_limit_w is not None
    assert 20 < told.power_w <= 1.1 * told.power_limit_w
    assert told.temperature_max_c is not None
    assert 15 < told.temperature_max_c < 110
    steps_s = sum(outcome.series[0].step_times_s)
    if told.energy_j is not None:  # cards before Volta do not count it
        assert 0.5 * told.power_w * steps_s < told.energy_j < 3 * told.power_w * steps_s
    assert told.other_process_count == 0


@pytest.mark.parametrize("device", devices(is_quick_on_cpu=True))
def test_the_environment_names_the_device(device, monkeypatch) -> None:
    monkeypatch.setenv("WORKLOAD_SIZE", "tiny")
    outcome = measured(workload("mlp"), device)
    found = outcome.environment
    assert found.torch == torch.__version__
    if device == "cpu":
        assert (found.cuda, found.driver, outcome.telemetry, outcome.peak_reserved_bytes) == (None,) * 4
        return
    assert found.cuda == torch.version.cuda
    assert found.driver
    assert found.threads_per_worker is None
    assert found.device_name == torch.cuda.get_device_name(device)
    assert match_device(found.device_name, found.device_memory_bytes, load_gpus()) is not None
    assert outcome.peak_reserved_bytes is not None
    assert outcome.peak_reserved_bytes[0] >= outcome.peak_allocated_bytes[0] > 0


@pytest.mark.parametrize("device", devices(is_quick_on_cpu=True))
@pytest.mark.parametrize(("name", "size"), [("gpt2", "124m"), ("resnet", "50"), ("mlp", "small")])
def test_the_trace_counts_the_flops_that_the_device_runs(device, name, size, monkeypatch) -> None:
    monkeypatch.setenv("WORKLOAD_SIZE", size_for(device, size))
    loaded = load(workload(name))
    trace = trace_step(loaded, micro_batch_size=2, precision=Precision.FP32, is_cuda=device != "cpu")
    step = loaded.build().to(device)
    batch = move_to(one_batch(loaded.source, 2), torch.device(device))
    with FlopCounterMode(display=False) as counter:
        step(batch).backward()
    known = [  # torch's counter does not know the CPU's fused attention
        one for one in trace.operations if device != "cpu" or one.kind is not OperationClass.ATTENTION
    ]
    flops = sum(one.flops * one.count for one in known)
    assert flops == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_gpt2_and_resnet_50_have_the_flops_that_are_published(monkeypatch) -> None:
    """6 N + 12 L d T per token (PaLM, appendix B); 4.09 G multiply-adds per image (torchvision's figure)."""
    monkeypatch.setenv("WORKLOAD_SIZE", "124m")
    gpt2 = trace_step(load(workload("gpt2")), micro_batch_size=1, precision=Precision.BF16)
    tokens, parameters = 1024, 12 * 12 * 768**2 + 50304 * 768
    per_token = 6 * parameters + 12 * 12 * 768 * tokens
    assert micro_batch_flops([gpt2], 1) == pytest.approx(per_token * tokens, rel=0.01)
    monkeypatch.setenv("WORKLOAD_SIZE", "50")
    resnet = trace_step(load(workload("resnet")), micro_batch_size=1, precision=Precision.FP32)
    # three products of equal size in each layer, but no gradient towards the image in the first one
    first = 2 * 112 * 112 * 64 * 3 * 7 * 7
    assert micro_batch_flops([resnet], 1) == pytest.approx(3 * 2 * 4.09e9 - first, rel=0.01)


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize("techniques", [(), ("activation_checkpointing",)], ids=["kept", "checkpointed"])
@pytest.mark.parametrize(
    ("name", "size", "micro_batch_size", "precision"),
    [
        ("gpt2", "124m", 8, Precision.BF16),
        ("gpt2", "124m", 8, Precision.FP32),
        ("resnet", "50", 32, Precision.BF16),
        ("bert", "base", 16, Precision.BF16),
    ],
)
def test_peak_memory_is_what_the_trace_predicts(
    device, name, size, micro_batch_size, precision, techniques, monkeypatch
) -> None:
    monkeypatch.setenv("WORKLOAD_SIZE", size_for(device, size))
    one = workload(name)
    knobs = {
        "micro_batch_size": micro_batch_size,
        "precision": precision,
        "techniques": techniques,
    }
    outcome = measured(one, device, **knobs)
    trace = trace_step(load(one), is_cuda=device != "cpu", **knobs)
    real, predicted = max(outcome.peak_allocated_bytes), trace.peak_bytes
    tolerance = 0.15 if device != "cpu" else 0.5
    slack_bytes = (64 if device != "cpu" else 8) * 2**20  # workspaces of cuBLAS and cuDNN; the C library
    assert abs(real - predicted) < tolerance * predicted + slack_bytes


@pytest.mark.parametrize("device", devices(is_quick_on_cpu=True))
def test_the_share_of_the_peak_is_believable(device, monkeypatch) -> None:
    """Public runs of this class reach 29% to 51%, compiled and tuned (benchmarks/mfu.py)."""
    monkeypatch.setenv("WORKLOAD_SIZE", size_for(device, "124m"))
    gpt2, knobs = workload("gpt2"), {"micro_batch_size": 16, "precision": Precision.BF16}
    outcome = measured(gpt2, device, gpu=catalog_name(device), **knobs)
    share = peak_fraction(outcome, [trace_step(load(gpt2), **knobs)], load_gpus())
    assert share is not None
    assert 0.1 < share < 0.75 if device != "cpu" else 0 < share < 1  # tiny models fill no CPU
