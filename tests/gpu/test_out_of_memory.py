"""Memory that runs out on the device: a value, 20 times in a row in one warm process, and nothing stays."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.gpu.devices import config, devices, measured, run, size_for, workload
from trials.machine.identity import host_memory_bytes
from trials.measurement import Measurement
from trials.model_file.source import hash_workload
from trials.trial import Failure, FailureKind, Precision

HUNGRY = hash_workload(Path(__file__).parent / "hungry.py")
IN_A_ROW = 20
SLACK_BYTES = 64 * 2**20


@pytest.fixture
def limited(monkeypatch, device) -> int:
    """Bytes that each sample takes, such that some fit and 20 never do."""
    total = host_memory_bytes() if device == "cpu" else torch.cuda.get_device_properties(device).total_memory
    monkeypatch.setenv("HUNGRY_BYTES", str(total // 7))
    return total // 7


@pytest.fixture
def ending(device) -> Iterator[None]:
    """Memory that a real model fills: the GPU's own; on CPU the kernel gives this process little more."""
    kept = resource.getrlimit(resource.RLIMIT_DATA)
    if device == "cpu":
        used_kib = re.search(r"^VmData:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
        assert used_kib is not None
        resource.setrlimit(resource.RLIMIT_DATA, (int(used_kib[1]) * 1024 + 2**29, kept[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, kept)


def held_bytes(device: str) -> int:
    """What this process holds: of the device's memory exactly; of the host's, as the kernel counts it."""
    gc.collect()
    if device == "cpu":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    return torch.cuda.memory_allocated(device)


@pytest.mark.parametrize("device", devices(is_quick_on_cpu=True))
def test_many_in_a_row_leave_memory_as_it_was_and_the_next_trial_right(limited, device) -> None:
    before = measured(HUNGRY, device, micro_batch_size=1)
    baseline = held_bytes(device)
    for _ in range(IN_A_ROW):
        outcome = run(HUNGRY, device, micro_batch_size=IN_A_ROW)
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.OUT_OF_MEMORY, outcome
        if device == "cpu":
            assert held_bytes(device) - baseline < SLACK_BYTES
            continue
        assert held_bytes(device) == baseline
        assert torch.cuda.memory_reserved(device) - baseline < SLACK_BYTES
    after = measured(HUNGRY, device, micro_batch_size=1)
    assert after.losses[:5] == pytest.approx(before.losses[:5], rel=1e-5)
    assert after.peak_allocated_bytes[0] == pytest.approx(before.peak_allocated_bytes[0], rel=0.1)


@pytest.mark.parametrize("device", devices(is_quick_on_cpu=True))
def test_the_boundary_is_found_by_halving_and_confirmed(limited, device) -> None:
    fits, overflows = 1, 2 * IN_A_ROW
    while overflows - fits > 1:
        middle = (fits + overflows) // 2
        outcome = run(HUNGRY, device, micro_batch_size=middle)
        if isinstance(outcome, Measurement):
            fits = middle
        else:
            assert outcome.kind is FailureKind.OUT_OF_MEMORY, outcome
            overflows = middle
    assert 1 <= fits <= 7  # 7 samples would be all of the memory
    assert isinstance(run(HUNGRY, device, micro_batch_size=fits), Measurement)
    assert isinstance(run(HUNGRY, device, micro_batch_size=overflows), Failure)


@pytest.mark.parametrize("device", devices())
def test_a_real_model_s_boundary_is_confirmed_and_larger_batches_fail_too(
    device, ending, monkeypatch
) -> None:
    monkeypatch.setenv("WORKLOAD_SIZE", size_for(device, "355m"))
    gpt2, size = workload("gpt2"), 8
    knobs = {"precision": Precision.BF16}
    peaks: dict[int, int] = {}
    measured(gpt2, device, micro_batch_size=size, **knobs)  # what a first trial loads is not the batch's
    while isinstance(outcome := run(gpt2, device, micro_batch_size=size, **knobs), Measurement):
        peaks[size] = outcome.peak_memory_bytes
        size *= 2
        assert size <= 4096, "memory never ended"
    assert outcome.kind is FailureKind.OUT_OF_MEMORY, outcome
    assert peaks
    assert sorted(peaks.values()) == list(peaks.values())  # memory grows with the batch
    confirmed = run(gpt2, device, micro_batch_size=max(peaks), **knobs)
    assert isinstance(confirmed, Measurement), confirmed
    assert confirmed.peak_allocated_bytes[0] < confirmed.environment.device_memory_bytes
    again = run(gpt2, device, micro_batch_size=2 * size, **knobs)
    assert isinstance(again, Failure)
    assert again.kind is FailureKind.OUT_OF_MEMORY


@pytest.mark.ray
@pytest.mark.parametrize("device", devices())
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed here")
# Ray leaves sockets and log files to the garbage collector
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_warm_ray_worker_survives_twenty(limited, device) -> None:
    from trials.cluster.attach import attach
    from trials.cluster.discovery import discover
    from trials.devices import DeviceGroup
    from trials.runner import RunnerSettings, open_runner

    with attach():
        nodes = discover()
        group = DeviceGroup(gpu=device, is_cpu=device == "cpu", device_name=nodes[0].device_name, nodes=nodes)
        settings = RunnerSettings(measure="tests.gpu.held:measure", worker_counts={device: 1})
        with open_runner(HUNGRY, [group], settings) as run_trial:
            first = run_trial(config(device, micro_batch_size=1))
            outcomes = [run_trial(config(device, micro_batch_size=IN_A_ROW)) for _ in range(IN_A_ROW)]
            last = run_trial(config(device, micro_batch_size=1))
    assert {one.kind for one in outcomes} == {FailureKind.OUT_OF_MEMORY}
    assert isinstance(first, Measurement), first
    assert isinstance(last, Measurement), last
    assert (
        {one.detail for one in outcomes} == {first.warnings[-1]} == {last.warnings[-1]}
    )  # process, bytes held
    assert first.warnings[-1].split()[0] != str(os.getpid())
