"""Is the step time that a trial reports that of the real run? Against 200 end-to-end steps of the plain loop.

    python -m benchmarks.agreement [--pairs 12] [--examples gpt convnet hugging_face]

The trials are the product's own: a warm Ray Train worker, its settings (fewer steps), and the number that it
reports. The loop is `plain_loop.py`, imports nothing of planner and runs in its own process: fetch, forward,
backward, clip, step, zero_grad. So that foreign load and drift meet both alike they take turns: after each
block of a trial's steps the loop takes as many, and the trial's next block waits for it. The turn passes
where the ranks of a trial agree on the block's times, outside everything that is timed. How memory happens to
lie moves a process by some percent, so a *pair* is a fresh worker and a fresh loop, with a few trials each.
Where the system lets them, both run at real-time priority, so that nothing interrupts a step.

A round is one trial: its step time over the loop's mean step in the same turns, slow steps and all. Printed
are the geometric mean of the pairs, each the mean of its rounds, with its interval and two witnesses: what
the median of the trial's steps would give, and the ratio of CPU seconds, which waiting for a core does not
touch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from benchmarks.this_machine import CPU, cpu_group
from trials.cluster.attach import attach
from trials.measurement import Outcome
from trials.measuring.settings import MeasureSettings
from trials.model_file.source import hash_workload
from trials.rank_context import RankContext
from trials.runner import RunnerSettings, open_runner
from trials.step_times import half_width
from trials.trial import Failure, Parallelism, Precision, TrialConfig, Workload

EXAMPLES = Path(__file__).parents[1] / "examples"
SIZES = {"gpt": 2, "convnet": 16, "hugging_face": 2}
THREADS = 1  # two that wait for each other are at the mercy of what else runs
STEPS = 200
AIM_FRACTION = 0.03
ROUNDS_PER_PAIR = 5
LOOP = Path(__file__).with_name("plain_loop.py")
SETTINGS = MeasureSettings(timed_max=20, is_split=False)  # many short trials rather than few long ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Steps of a trial, and as many of the loop right after them."""

    trial_times_s: tuple[float, ...]
    trial_cpu_s: float
    loop_s: float
    loop_cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A trial and the loop's steps in its turns."""

    reported_s: float  # what the product says a step takes
    blocks: tuple[Block, ...]  # of timed steps

    @property
    def step_count(self) -> int:
        """Of the trial, and of the loop."""
        return sum(len(one.trial_times_s) for one in self.blocks)

    @property
    def loop_step_s(self) -> float:
        """Mean of the loop's steps."""
        return math.fsum(one.loop_s for one in self.blocks) / self.step_count

    @property
    def ratio(self) -> float:
        """Reported over real."""
        return self.reported_s / self.loop_step_s

    @property
    def median_ratio(self) -> float:
        """The median of the steps timed over the loop's mean: what a trial would say that reported it."""
        times_s = [time_s for one in self.blocks for time_s in one.trial_times_s]
        return statistics.median(times_s) / self.loop_step_s

    @property
    def cpu_ratio(self) -> float:
        """CPU seconds over CPU seconds."""
        return sum(one.trial_cpu_s for one in self.blocks) / sum(one.loop_cpu_s for one in self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTaking(RankContext):
    """A rank whose trial gives the loop a turn after each block of its steps."""

    loop: Connection[Any, Any]
    blocks: list[Block] = field(default_factory=list)
    since_s: list[float] = field(default_factory=list)  # the thread's CPU time when the turn came back

    def largest(self, values: Sequence[float]) -> list[float]:
        """Called with the block's step times, and whether it diverged, when the block is over."""
        if len(values) > 1:
            trial_cpu_s = time.thread_time() - (self.since_s[-1] if self.since_s else 0.0)
            self.loop.send(len(values) - 1)
            loop_s, loop_cpu_s = self.loop.recv()
            self.blocks.append(
                Block(
                    trial_times_s=tuple(values[:-1]),
                    trial_cpu_s=trial_cpu_s,
                    loop_s=loop_s,
                    loop_cpu_s=loop_cpu_s,
                )
            )
            self.since_s.append(time.thread_time())
        return RankContext.largest(self, values)


def measure_in_turns(
    folder: Path, workload: Workload, config: TrialConfig, context: RankContext, *more: Any
) -> Outcome:
    """Runs in the warm worker: the product's own measuring; what came of the turns goes to a file."""
    from trials.measuring.measure import measure

    with suppress(AttributeError, PermissionError):  # this thread is the one that trains
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with Client(str(folder / "loop")) as loop:
        turns = TurnTaking(
            device=context.device, threads=context.threads, ray_version=context.ray_version, loop=loop
        )
        outcome = measure(workload, config, turns, *more)
    blocks = [
        (one.trial_times_s, one.trial_cpu_s, one.loop_s, one.loop_cpu_s)
        for one in turns.blocks
        if len(one.trial_times_s) > 1  # warm-up and the step under the memory profiler come singly
    ]
    (folder / "blocks.json").write_text(json.dumps(blocks))
    return outcome


@contextmanager
def plain_loop(name: str, folder: Path) -> Iterator[None]:
    """The loop in its process, waiting for its turns."""
    socket = folder / "loop"
    command = [sys.executable, "-P", str(LOOP), str(EXAMPLES / f"{name}.py"), str(SIZES[name]), str(THREADS)]
    with subprocess.Popen([*command, str(socket)], stdout=subprocess.PIPE, text=True) as loop:
        try:
            assert loop.stdout is not None
            if not loop.stdout.readline():
                sys.exit(f"{name}: the plain loop did not start")
            yield
        finally:
            loop.terminate()
            socket.unlink(missing_ok=True)


def take_rounds(name: str, folder: Path) -> list[Round]:
    """The rounds of a pair: trials of a fresh worker with a fresh loop."""
    workload = hash_workload(EXAMPLES / f"{name}.py")
    config = TrialConfig(
        gpu=CPU,
        gpu_count=1,
        micro_batch_size=SIZES[name],
        accumulation=1,
        precision=Precision.FP32,
        parallelism=Parallelism.SINGLE,
    )
    group = cpu_group()
    settings = RunnerSettings(
        measure=partial(measure_in_turns, folder), measure_settings=SETTINGS, worker_counts={CPU: 1}
    )
    rounds: list[Round] = []
    with open_runner(workload, [group], settings) as run, plain_loop(name, folder):
        run(config)  # both have met the model
        for _ in range(ROUNDS_PER_PAIR):
            outcome = run(config)
            if isinstance(outcome, Failure):
                sys.exit(f"{name}: {outcome.reason}\n{outcome.detail}")
            blocks = tuple(
                Block(trial_times_s=tuple(times), trial_cpu_s=cpu_s, loop_s=loop_s, loop_cpu_s=loop_cpu_s)
                for times, cpu_s, loop_s, loop_cpu_s in json.loads((folder / "blocks.json").read_text())
            )
            rounds.append(Round(reported_s=outcome.step_time_s, blocks=blocks))
    return rounds


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95% interval, Student's of the logarithms."""
    logs = [math.log(one) for one in ratios]
    middle, half = statistics.fmean(logs), half_width(logs)
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def row(name: str, pairs: Sequence[Sequence[Round]]) -> str:
    """One line of the table; a pair is one value, since its rounds share their processes."""

    def over_pairs(ratio: Callable[[Round], float]) -> tuple[float, float, float]:
        return interval([statistics.geometric_mean(map(ratio, rounds)) for rounds in pairs])

    middle, low, high = over_pairs(lambda one: one.ratio)
    is_within = low >= 1 - AIM_FRACTION and high <= 1 + AIM_FRACTION
    is_outside = low > 1 + AIM_FRACTION or high < 1 - AIM_FRACTION
    verdict = "yes" if is_within else "no" if is_outside else "open"
    rounds = [one for pair in pairs for one in pair]
    steps = sum(one.step_count for one in rounds)
    loop_ms = 1000 * statistics.median(one.loop_step_s for one in rounds)
    median, _, _ = over_pairs(lambda one: one.median_ratio)
    cpu, _, _ = over_pairs(lambda one: one.cpu_ratio)
    return (
        f"{name:14} {len(pairs):6} {steps:6} {loop_ms:9.1f} {middle:11.3f}   {low:.3f} to {high:.3f}"
        f" {verdict:>10} {median:12.3f} {cpu:9.3f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--examples", nargs="*", default=list(SIZES), choices=list(SIZES))
    given = parser.parse_args()
    print(
        f"{'example':14} {'pairs':>6} {'steps':>6} {'loop, ms':>9} {'trial/loop':>11}   {'95% interval':14}"
        f" {'within 3%':>10} {'median/mean':>12} {'CPU/CPU':>9}",
        flush=True,
    )
    with attach(cpu_count=THREADS):
        for name in given.examples:
            pairs: list[list[Round]] = []
            while len(pairs) < given.pairs or sum(one.step_count for pair in pairs for one in pair) < STEPS:
                with tempfile.TemporaryDirectory() as folder:
                    pairs.append(take_rounds(name, Path(folder)))
            print(row(name, pairs), flush=True)


if __name__ == "__main__":
    main()
