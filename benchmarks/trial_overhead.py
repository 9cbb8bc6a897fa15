"""What a trial costs beside its own steps: in a warm group, and by a fresh ``TorchTrainer.fit`` each.

    python -m benchmarks.trial_overhead [--trials 100] [--fits 3]

Three numbers per world size. *Empty*: a trial that does nothing, from the call to the answer. *Real*: a trial
of a small model by `trials.measuring.measure`, its wall time less its steps, so that building the model
counts as overhead. *Fresh fit*: Ray Train's default way for the same nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.this_machine import CPU, cpu_group
from trials.cluster.attach import attach
from trials.measurement import Measurement, Outcome
from trials.model_file.source import hash_workload
from trials.runner import Runner, RunnerSettings, open_runner
from trials.trial import Failure, FailureKind, Parallelism, Precision, TrialConfig, Workload

EMPTY_SIZE = 1  # the micro batch size that stands for a trial that does nothing
MODEL = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

def batch(size):
    return torch.randn(size, 64), torch.randint(0, 8, (size,))

def loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])
"""


def measure(workload: Workload, config: TrialConfig, place: Any, *_: Any) -> Outcome:
    """Runs in the workers: nothing, or the real thing with the process's memory noted."""
    if config.micro_batch_size == EMPTY_SIZE:
        return Failure(config=config, kind=FailureKind.UNSUPPORTED, reason="empty", trial_s=1.0)
    from dataclasses import replace

    from trials.measuring.measure import MeasureSettings
    from trials.measuring.measure import measure as measure_really

    outcome = measure_really(workload, config, place, MeasureSettings(timed_max=10, half_width_fraction=1.0))
    if isinstance(outcome, Measurement):
        return replace(outcome, warnings=(str(resident_bytes()),))
    return outcome


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def config(size: int, workers: int) -> TrialConfig:
    """A trial of ``size`` samples per worker."""
    return TrialConfig(
        gpu=CPU,
        gpu_count=workers,
        micro_batch_size=size,
        accumulation=1,
        precision=Precision.FP32,
        parallelism=Parallelism.SINGLE if workers == 1 else Parallelism.DDP,
    )


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    begun_s = time.perf_counter()
    result = call()
    return time.perf_counter() - begun_s, result


def empty_overheads_s(run: Runner, workers: int, count: int) -> list[float]:
    """Wall seconds of trials that do nothing."""
    return [timed(lambda: run(config(EMPTY_SIZE, workers)))[0] for _ in range(count)]


def real_overheads_s(run: Runner, workers: int, count: int) -> tuple[list[float], list[int]]:
    """Wall seconds of real trials less their steps, and the worker's memory after each."""
    overheads_s, memory_bytes = [], []
    for _ in range(count):
        wall_s, outcome = timed(lambda: run(config(32, workers)))
        if not isinstance(outcome, Measurement):
            sys.exit(f"the trial failed: {outcome.reason}\n{outcome.detail}")
        steps_s = sum(outcome.series[0].step_times_s)
        steps_s += outcome.first_step_s + (outcome.warmup_step_count - 1) * outcome.step_time_s
        overheads_s.append(wall_s - steps_s)
        memory_bytes.append(int(outcome.warnings[0]))
    return overheads_s, memory_bytes


def fresh_fit_s(workers: int, cores: int, work: Callable[[], None] = lambda: None) -> float:
    """Wall seconds of one `TorchTrainer.fit` of ``work``, by default nothing, with Ray Train's defaults."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            work,
            scaling_config=ScalingConfig(
                num_workers=workers, resources_per_worker={"CPU": cores / max(2, workers)}
            ),
            run_config=RunConfig(storage_path=folder),
        )
        return timed(trainer.fit)[0]


def row(what: str, workers: int, seconds: list[float]) -> str:
    """One line of the table."""
    middle, worst = statistics.median(seconds), max(seconds)
    return f"{what:34} {workers:7} {len(seconds):6} {middle:10.3f} {worst:10.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--fits", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, attach() as cluster:
        path = Path(folder) / "model.py"
        path.write_text(textwrap.dedent(MODEL))
        workload = hash_workload(path)
        group = cpu_group()
        settings = RunnerSettings(measure=measure, worker_counts={CPU: 2})
        cores = group.nodes[0].cpu_count
        print(f"{cores} x {group.device_name}, embedded cluster at {cluster.address}")
        print(f"{'':34} {'workers':>7} {'trials':>6} {'median s':>10} {'max s':>10}")
        warm: dict[int, list[float]] = {}
        with open_runner(workload, [group], settings) as run:
            first_s, _ = timed(lambda: run(config(EMPTY_SIZE, 2)))
            for workers in (1, 2):
                warm[workers] = empty_overheads_s(run, workers, given.trials)
                print(row("empty trial, warm", workers, warm[workers]))
                real_s, memory_bytes = real_overheads_s(run, workers, given.trials)
                print(row("real trial less its steps, warm", workers, real_s[1:]))
                early, late = memory_bytes[min(10, given.trials - 1)], memory_bytes[-1]
                print(
                    f"    worker's memory after 10 trials {early / 1e6:.0f} MB, after all {late / 1e6:.0f} MB"
                )
        print(row("first trial (start of 2 workers)", 2, [first_s]))
        for workers in (1, 2):
            fits_s = [fresh_fit_s(workers, group.nodes[0].cpu_count) for _ in range(given.fits)]
            print(row("fresh TorchTrainer.fit of nothing", workers, fits_s))
            ratio = statistics.median(fits_s) / statistics.median(warm[workers])
            print(f"    a fresh fit takes {ratio:.0f} times as long as a warm trial")


if __name__ == "__main__":
    main()
