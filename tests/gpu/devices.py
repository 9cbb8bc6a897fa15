"""On which devices a test of this folder runs, and what it runs there.

The GPU is skipped with the reason where there is none. A body that is quick on CPU always runs there too; the
slower ones do when PLANNER_GPU_TESTS_ON_CPU is set, to try the tests themselves before a GPU is rented.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
import torch

from catalogs.gpus import cpu_class, load_gpus, match_device
from trials.measurement import Measurement, Outcome
from trials.measuring.measure import MeasureSettings, RankContext, measure
from trials.model_file.source import hash_workload
from trials.trial import Parallelism, Precision, TrialConfig, Workload

CUDA = "cuda:0"
NO_CUDA = "no CUDA device: torch.cuda.is_available() is False"
WORKLOADS = Path(__file__).parents[2] / "benchmarks" / "workloads"
QUICK = MeasureSettings(warmup_min=2, warmup_max=4, timed_min=6, timed_max=10, max_s=2.0)

on_gpu = pytest.param(
    CUDA,
    id="cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_CUDA)],
)


def devices(*, is_quick_on_cpu: bool = False) -> list[object]:
    """Parameters for ``device``."""
    is_tried = is_quick_on_cpu or bool(os.environ.get("PLANNER_GPU_TESTS_ON_CPU"))
    return [on_gpu, *(["cpu"] if is_tried else [])]


def workload(name: str) -> Workload:
    """One of benchmarks/workloads; WORKLOAD_SIZE says how large."""
    return hash_workload(WORKLOADS / f"{name}.py")


def run(one: Workload, device: str, settings: MeasureSettings = QUICK, **knobs: object) -> Outcome:
    """A trial in this process, as a warm worker runs it."""
    return measure(one, config(device, **knobs), RankContext(device=device, threads=1), settings)


def measured(one: Workload, device: str, settings: MeasureSettings = QUICK, **knobs: object) -> Measurement:
    """The same, of a trial that must work."""
    outcome = run(one, device, settings, **knobs)
    assert isinstance(outcome, Measurement), outcome
    return outcome


def config(device: str, **knobs: object) -> TrialConfig:
    """One worker, fp32, micro batch 4, no accumulation."""
    values: dict[str, object] = {
        "gpu": device,
        "gpu_count": 1,
        "micro_batch_size": 4,
        "accumulation": 1,
        "precision": Precision.FP32,
        "parallelism": Parallelism.SINGLE,
    }
    return TrialConfig(**(values | knobs))  # type: ignore[arg-type]


def catalog_name(device: str) -> str:
    """What the catalog calls this machine's device."""
    gpus = load_gpus()
    if device == "cpu":
        return cpu_class(platform.machine(), gpus).name
    memory_bytes = torch.cuda.get_device_properties(device).total_memory
    found = match_device(torch.cuda.get_device_name(device), memory_bytes, gpus)
    assert found is not None, f"{torch.cuda.get_device_name(device)} is not in catalogs/gpus.csv"
    return found.name


def size_for(device: str, on_gpu: str) -> str:
    """WORKLOAD_SIZE: the real one on a GPU, tiny on CPU."""
    return "tiny" if device == "cpu" else on_gpu
