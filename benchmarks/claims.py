"""What is said of training speed and memory, measured on the device at hand: claim against measurement.

    python -m benchmarks.claims [--device cuda:0] [--rounds 5] [--max-minutes 6]

Every figure is a ratio of two trials that ran one after the other, in turns in either order, through the code
of a sweep's trials; the interval is the 95% t interval of the mean log ratio over the rounds. On a GPU the
workloads are those that the claims are about (GPT-2 124M, linear layers of 4,096); on CPU they are tiny, and
the table says little about GPUs. A trial against a plain loop: `benchmarks.agreement`.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks.record import context_of, default_device
from trials.machine.identity import device_name
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings, measure
from trials.model_file.source import hash_workload
from trials.trial import Parallelism, Precision, TrialConfig

WORKLOADS = Path(__file__).parent / "workloads"
_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # Student's t by degrees of freedom, from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One side of a comparison."""

    workload: str
    environment: dict[str, str]
    knobs: dict[str, object] = field(default_factory=dict)
    loader_worker_count: int | None = None


Value = Callable[[Measurement], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is said, and the two variants whose ratio shows it."""

    said: str
    what: str  # is compared
    of: Variant
    to: Variant
    value: Value
    factor: float = 1.0  # on the ratio, where the two do not do the same work


def step_s(one: Measurement) -> float:
    """Seconds per optimizer step."""
    return one.step_time_s


def peak_bytes(one: Measurement) -> float:
    """Bytes allocated at the peak."""
    return float(max(one.peak_allocated_bytes))


def waiting_fraction(one: Measurement) -> float:
    """Share of the step spent waiting for data."""
    assert one.phases is not None
    return max(one.phases.data_wait_s / one.step_time_s, 1e-4)


def claims_for(device: str) -> list[Claim]:
    """The claims with the workloads that fit the device."""
    is_cpu = device == "cpu"
    size = "tiny" if is_cpu else "124m"
    micro, many = (4, 8) if is_cpu else (4, 4)
    width, rows = (512, 256) if is_cpu else (4096, 8192)

    def gpt(**knobs: object) -> Variant:
        values = {"micro_batch_size": micro * many, "precision": Precision.BF16} | knobs
        return Variant(workload="gpt2", environment={"WORKLOAD_SIZE": size}, knobs=values)

    def linear(columns: int) -> Variant:
        environment = {"WORKLOAD_SIZE": "tiny" if is_cpu else "wide", "WORKLOAD_WIDTH": str(columns)}
        knobs = {"micro_batch_size": rows, "precision": Precision.BF16}
        return Variant(workload="mlp", environment=environment, knobs=knobs)

    def reading(workers: int) -> Variant:
        environment = {"WORKLOAD_SIZE": "tiny" if is_cpu else "full"}
        knobs = {"micro_batch_size": 16 if is_cpu else 64}
        return Variant(
            workload="slow_input", environment=environment, knobs=knobs, loader_worker_count=workers
        )

    fp32, small, large = gpt(precision=Precision.FP32), gpt(micro_batch_size=micro), gpt()
    accumulated = gpt(micro_batch_size=micro, accumulation=many)
    again, odd, even = gpt(techniques=("activation_checkpointing",)), linear(width - 1), linear(width)
    workers = 1 if is_cpu else 8
    mixed = "mixed precision is 1.5x to 2x as fast"
    aligned = "multiples of 8 are another 1.5x to 2x as fast"
    keeps, costs = "checkpointing saves 60 to 70% of memory", "checkpointing costs 20 to 30% of time"
    free, hides = "accumulation needs no memory", "asynchronous loading removes the wait"
    found = [Claim(said=mixed, what="speed of bf16 over fp32", of=fp32, to=gpt(), value=step_s)]
    if not is_cpu:
        for one in (Precision.TF32, Precision.FP16):
            what = f"speed of {one} over fp32"
            found.append(Claim(said=mixed, what=what, of=fp32, to=gpt(precision=one), value=step_s))
    same_work = (width / (width - 1)) ** 2
    by = f"with {workers} loader workers over none"
    parts, whole = f"{many} x {micro} over {micro}", f"{many} x {micro} over {micro * many}"
    return [
        *found,
        Claim(
            said=aligned,
            what=f"speed of width {width} over {width - 1}",
            of=odd,
            to=even,
            value=step_s,
            factor=same_work,
        ),
        Claim(said=keeps, what="peak memory over without", of=again, to=large, value=peak_bytes),
        Claim(said=costs, what="step time over without", of=again, to=large, value=step_s),
        Claim(said=free, what=f"peak memory of {parts}", of=accumulated, to=small, value=peak_bytes),
        Claim(said=free, what=f"peak memory of {whole}", of=accumulated, to=large, value=peak_bytes),
        Claim(said=free, what=f"step time of {whole}", of=accumulated, to=large, value=step_s),
        Claim(said=hides, what=f"wait {by}", of=reading(workers), to=reading(0), value=waiting_fraction),
        Claim(said=hides, what=f"speed {by}", of=reading(0), to=reading(workers), value=step_s),
    ]


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--rounds", type=int, default=5, help="2 to 10")
    parser.add_argument("--max-minutes", type=float, default=6.0)
    parser.add_argument("--only", default="", help="claims whose words hold this")
    given = parser.parse_args()
    ends_s = time.monotonic() + 60 * given.max_minutes
    print(f"{device_name(given.device)}, torch {torch.__version__}, {given.rounds} rounds")
    print(f"| {'claim':45} | {'measured':38} | {'ratio':>6} | {'95% interval':>14} |")
    print("|---|---|---|---|")
    for claim in claims_for(given.device):
        if given.only not in f"{claim.said}: {claim.what}":
            continue
        found = ratios(claim, given.device, given.rounds, ends_s)
        if len(found) <= 1:
            print(f"| {claim.said:45} | {claim.what:38} | not run: --max-minutes is over | |", flush=True)
            continue
        middle, low, high = interval(found)
        print(f"| {claim.said:45} | {claim.what:38} | {middle:6.3f} | {low:6.3f} - {high:5.3f} |", flush=True)


def ratios(claim: Claim, device: str, rounds: int, ends_s: float) -> list[float]:
    """One for each round that was begun in time."""
    found: list[float] = []
    if time.monotonic() > ends_s:
        return found
    trial(claim.of, device)  # what a first trial loads and initialises is nobody's memory or time
    for turn in range(rounds):
        if time.monotonic() > ends_s:
            break
        sides = [lambda: claim.value(trial(claim.of, device)), lambda: claim.value(trial(claim.to, device))]
        if turn % 2:
            other, one = sides[1](), sides[0]()
        else:
            one, other = sides[0](), sides[1]()
        found.append(claim.factor * one / other)
    return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95% t interval."""
    logs = [math.log(one) for one in values]
    middle = statistics.mean(logs)
    half = _T_95[len(logs) - 2] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def trial(variant: Variant, device: str) -> Measurement:
    """A trial in this process; ends the program when it fails."""
    os.environ.update(variant.environment)
    values: dict[str, object] = {
        "gpu": device,
        "gpu_count": 1,
        "micro_batch_size": 8,
        "accumulation": 1,
        "precision": Precision.FP32,
        "parallelism": Parallelism.SINGLE,
    }
    settings = MeasureSettings(
        timed_min=10, timed_max=40, max_s=1.5, is_full=True, loader_worker_count=variant.loader_worker_count
    )
    workload = hash_workload(WORKLOADS / f"{variant.workload}.py")
    config = TrialConfig(**(values | variant.knobs))  # type: ignore[arg-type]
    outcome = measure(workload, config, context_of(device), settings)
    for name in variant.environment:
        del os.environ[name]
    if not isinstance(outcome, Measurement):
        sys.exit(f"{variant}: {outcome.kind}: {outcome.reason}\n{outcome.detail}")
    return outcome


if __name__ == "__main__":
    main()
