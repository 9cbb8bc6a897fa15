"""Injects faults into trials of two workers and counts what goes wrong around them.

    python -m benchmarks.faults [--faults 100]

Kinds and parallelism rotate: an exception, an out-of-memory error on one rank and on all, sys.exit, a hang,
SIGKILL and os._exit, under DDP and FSDP2, on the last rank while the first waits in a collective. After each
fault a sane trial runs, whose losses must be those of fresh workers to rounding.

Counted: *hangs* (a trial took longer than its limit, a restart and a margin), *wrong kinds* (the failure is
not the one injected), *wrong results* (a sane trial failed or its losses differ), *lost trials* (no outcome).
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.this_machine import CPU, cpu_group
from tests.trials.faulty.model import FAULTS
from trials.cluster.attach import attach
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings
from trials.model_file.source import hash_workload
from trials.runner import Runner, RunnerSettings, open_runner
from trials.trial import Failure, FailureKind, Parallelism, Precision, TrialConfig

SANE_SIZE = 32
LIMIT_S = 10.0
BOUND_S = LIMIT_S + 120.0  # a restart of the workers on a busy machine included
MODEL = Path(__file__).parent.parent / "tests" / "trials" / "faulty" / "model.py"
EXPECTED = {
    "exception": FailureKind.USER_CODE,
    "out of memory": FailureKind.OUT_OF_MEMORY,
    "hang": FailureKind.TIMED_OUT,
    "SIGKILL": FailureKind.WORKER_LOST,
    "os._exit": FailureKind.WORKER_LOST,
    "sys.exit": FailureKind.USER_CODE,
    "out of memory everywhere": FailureKind.OUT_OF_MEMORY,
    "device lost": FailureKind.USER_CODE,
}


def config(size: int, parallelism: Parallelism) -> TrialConfig:
    """A trial of two workers; the size of the batch names the fault."""
    return TrialConfig(
        gpu=CPU,
        gpu_count=2,
        micro_batch_size=size,
        accumulation=1,
        precision=Precision.FP32,
        parallelism=parallelism,
    )


class Tally:
    """What was seen."""

    def __init__(self, sane_losses: tuple[float, ...]) -> None:
        self._sane_losses = sane_losses
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.counts: Counter[str] = Counter()

    def inject(self, run: Runner, fault: str, size: int, parallelism: Parallelism) -> None:
        """One fault, and the sane trial after it."""
        begun_s = time.monotonic()
        outcome = run(config(size, parallelism))
        took_s = time.monotonic() - begun_s
        after = run(config(SANE_SIZE, parallelism))
        self.seconds[f"{fault}, {parallelism}"].append(took_s)
        is_expected = isinstance(outcome, Failure) and outcome.kind is EXPECTED[fault]
        self.counts["hangs"] += took_s > BOUND_S
        self.counts["wrong kinds"] += not is_expected
        self.counts["wrong results"] += not self._is_sane(after)
        self.counts["lost trials"] += outcome is None or after is None
        if not is_expected or not self._is_sane(after):
            print(f"{fault}, {parallelism}: {outcome}\nafter: {after}", file=sys.stderr)

    def _is_sane(self, outcome: object) -> bool:
        return isinstance(outcome, Measurement) and all(
            math.isclose(one, other, rel_tol=1e-5)
            for one, other in zip(outcome.losses, self._sane_losses, strict=False)
        )


def main() -> None:
    """Print the table; exit code 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    given = parser.parse_args()
    cases = [
        (size, fault, way) for size, fault in FAULTS.items() for way in (Parallelism.DDP, Parallelism.FSDP2)
    ]
    with attach(cpu_count=2):
        group = cpu_group()
        settings = RunnerSettings(
            worker_counts={CPU: 2},
            measure_settings=MeasureSettings(timed_max=10),
            limit_s=lambda _config, _seen: LIMIT_S,
        )
        with open_runner(hash_workload(MODEL), [group], settings) as run:
            first = run(config(SANE_SIZE, Parallelism.DDP))
            if not isinstance(first, Measurement):
                sys.exit(f"the sane trial failed: {first.reason}\n{first.detail}")
            tally = Tally(first.losses)
            for size, fault, way in itertools.islice(itertools.cycle(cases), given.faults):
                tally.inject(run, fault, size, way)
    print(f"{'fault on one of 2 ranks':36} {'times':>5} {'median s':>9} {'max s':>7}")
    for name, seconds in tally.seconds.items():
        print(f"{name:36} {len(seconds):5} {statistics.median(seconds):9.1f} {max(seconds):7.1f}")
    names = ("hangs", "wrong kinds", "wrong results", "lost trials")
    print(f"{given.faults} faults: " + ", ".join(f"{tally.counts[name]} {name}" for name in names))
    sys.exit(any(tally.counts[name] for name in names))


if __name__ == "__main__":
    main()
