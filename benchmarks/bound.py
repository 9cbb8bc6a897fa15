"""Cases built to be bound by one thing each, and what the classification makes of them, on CPU.

    python -m benchmarks.bound

*Launch* is the part of the passes that no smaller batch avoids; *2x* the speed with a device twice as fast.
Each model file is measured in a warm group by the real thing; its step is split, classified by
`planner.estimate.time.bottleneck`, and printed. For the case that waits for its data the speed promised for
loader workers is held against a trial with them.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from catalogs.gpus import Gpu, load_gpus
from planner.estimate.time.bottleneck import Bottleneck, BottleneckKind, bottleneck_of
from planner.fleet import fleet_of
from trials.check import check
from trials.cluster.attach import attach
from trials.cluster.discovery import discover
from trials.devices import DeviceGroup
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings
from trials.model_file.source import hash_workload
from trials.runner import RunnerSettings, open_runner
from trials.trial import Parallelism, Precision, TrialConfig

SETTINGS = MeasureSettings(timed_max=30, max_s=5.0)
HEAD = """
import time
import torch
from torch import nn

def loss(model, batch):
    return model(batch).square().mean()

def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=1e-3)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model file and what must come of it."""

    name: str
    text: str
    bound: BottleneckKind
    size: int
    workers: int = 1


CASES = (
    Case(
        name="5 ms to load a sample",
        text="""
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 4096
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((256,), 0.1)
def dataset(): return Samples()
def model(): return nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
""",
        bound=BottleneckKind.INPUT,
        size=16,
    ),
    Case(
        name="400 layers of 8 units",
        text="""
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(400))
    def forward(self, x):
        for layer in self.layers:  # around them, or gradients vanish, and numbers too small are slow on CPU
            x = x + 0.1 * layer(x)
        return x
def batch(size): return torch.full((size, 8), 0.1)
def model(): return Deep()
""",
        bound=BottleneckKind.LAUNCH,
        size=16,
    ),
    Case(
        name="34 M weights, 4 samples, DDP",
        text="""
def batch(size): return torch.full((size, 2048), 0.01)
def model(): return nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(8)))
""",
        bound=BottleneckKind.COMMUNICATION,
        size=4,
        workers=2,
    ),
    Case(
        name="4 layers of 1,024, 256 samples",
        text="""
def batch(size): return torch.full((size, 1024), 0.01)
def model(): return nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4)))
""",
        bound=BottleneckKind.COMPUTE,
        size=256,
    ),
    Case(
        name="elementwise on 1 M values",
        text="""
class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
    def forward(self, x):
        for _ in range(8):
            x = x * self.scale + 1
        return x
def batch(size): return torch.full((size, 1 << 16), 0.1)
def model(): return Wave()
""",
        bound=BottleneckKind.MEMORY,
        size=16,
    ),
)


def measured(case: Case, folder: Path, group: DeviceGroup, gpu: Gpu) -> bool:
    """Measure a case and print its line; whether it was classified right."""
    path = folder / f"case_{CASES.index(case)}.py"
    path.write_text(HEAD + case.text)
    workload = hash_workload(path)
    config = TrialConfig(
        gpu=group.gpu,
        gpu_count=case.workers,
        micro_batch_size=case.size,
        accumulation=1,
        precision=Precision.FP32,
        parallelism=Parallelism.SINGLE if case.workers == 1 else Parallelism.DDP,
    )
    settings = RunnerSettings(worker_counts={group.gpu: case.workers}, measure_settings=SETTINGS, wait_s=60.0)
    with open_runner(workload, [group], settings) as run:
        outcome = run(config)
        if not isinstance(outcome, Measurement):
            sys.exit(f"{case.name}: {outcome.reason}\n{outcome.detail}")
        binding = bottleneck_of(outcome, check(workload), gpu)
        assert binding is not None
        is_right = binding.bound is case.bound
        print(line(case.name, binding) + ("" if is_right else " (WRONG)"), flush=True)
        if binding.loaders is not None:
            count, promised = binding.loaders.worker_count, binding.loaders.speed_ratio
            text = f"    {count} loader workers: promised {promised:.2f} times the speed"
            with_loaders = run(replace(config, loader_worker_count=count))
            if isinstance(with_loaders, Measurement):
                ratio = outcome.step_time_s / with_loaders.step_time_s
                print(f"{text}, reached {ratio:.2f}")
    return is_right


def line(name: str, binding: Bottleneck) -> str:
    """Shares of the step, what binds it and what a device twice as fast would give."""
    phases = binding.phases
    parts = (
        phases.data_wait_s, phases.host_to_device_s, phases.forward_backward_s, phases.launch_s,
        phases.gradient_sync_s, phases.optimizer_s, phases.other_s,
    )  # fmt: skip
    shares = " ".join("     -" if one is None else f"{one / phases.step_s:6.0%}" for one in parts)
    return f"{name:32} {shares} {binding.faster_gpu_ratio:6.2f}  {binding.bound}"


def main() -> None:
    """Print the table; fail when a case is classified wrong."""
    gpus = load_gpus()
    names = ("data", "copy", "passes", "launch", "sync", "optim.", "idle", "2x")
    with tempfile.TemporaryDirectory() as folder, attach(cpu_count=2):
        (group,) = fleet_of(discover(), gpus, platform.machine()).groups
        print(f"{'case':32} " + " ".join(f"{one:>6}" for one in names) + "  bound")
        are_right = [measured(case, Path(folder), group, gpus[group.gpu]) for case in CASES]
    sys.exit(not all(are_right))


if __name__ == "__main__":
    main()
