"""Is the step time that a trial reports that of the real run? Against 200 end-to-end steps of the plain loop.

    python -m benchmarks.agreement [--rounds 6] [--examples gpt convnet hugging_face]

The loop is written here, imports nothing of planner and runs in a process of its own: fetch, forward,
backward, clip, step, zero_grad. Trials and blocks of its steps take turns, so that drift and foreign load
meet both. The ratio of each trial to the mean of the blocks before and after it is paired; the interval is
Student's t of the logarithms. The loop's figure is the mean of its wall time, outliers and all; the trial's
is its median.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
from pathlib import Path

from trials.measuring.measure import MeasureSettings, measure
from trials.measuring.place import Place
from trials.model_file.source import hash_workload
from trials.trial import Failure, Parallelism, Precision, TrialConfig

EXAMPLES = Path(__file__).parents[1] / "examples"
SIZES = {"gpt": 2, "convnet": 16, "hugging_face": 2}
THREADS = 1  # two that wait for each other are at the mercy of what else runs
STEPS = 200
T_95 = {3: 3.182, 5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201}  # two-sided 95% quantiles by degrees of freedom
SETTINGS = MeasureSettings(timed_max=30, max_s=3.0, is_split=False)
LOOP = """
import importlib.util, sys, time
import torch
path, size, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
spec = importlib.util.spec_from_file_location("example", path)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
torch.manual_seed(0)
model = example.model().train()
parameters = list(model.parameters())
optimizer = example.optimizer(parameters) if hasattr(example, "optimizer") else torch.optim.AdamW(parameters)
def batches():
    if hasattr(example, "dataset"):
        loader = torch.utils.data.DataLoader(example.dataset(), batch_size=size, shuffle=True, drop_last=True)
        while True:
            yield from loader
    while True:
        yield example.batch(size)
source = batches()
def step():
    batch = next(source)
    loss = example.loss(model, batch) if hasattr(example, "loss") else model(**batch).loss
    loss.backward()
    if hasattr(example, "clip_norm"):
        torch.nn.utils.clip_grad_norm_(parameters, example.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
for line in sys.stdin:
    count = int(line)
    begun = time.perf_counter()
    for _ in range(count):
        step()
    print((time.perf_counter() - begun) / count, flush=True)
"""


def ratios(name: str, rounds: int) -> tuple[list[float], float]:
    """Trial over loop, of every round, and the loop's mean step time over its 200 steps."""
    workload = hash_workload(EXAMPLES / f"{name}.py")
    config = TrialConfig(
        gpu="CPU",
        gpu_count=1,
        micro_batch_size=SIZES[name],
        accumulation=1,
        precision=Precision.FP32,
        parallelism=Parallelism.SINGLE,
    )
    command = [sys.executable, "-c", LOOP, workload.path, str(SIZES[name]), str(THREADS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loop:

        def block_s(count: int) -> float:
            assert loop.stdin is not None
            assert loop.stdout is not None
            print(count, file=loop.stdin, flush=True)
            return float(loop.stdout.readline())

        count = STEPS // (rounds + 1)
        block_s(20)  # warm-up
        measure(workload, config, Place(threads=THREADS), SETTINGS)
        blocks, trials = [block_s(count)], []
        for _ in range(rounds):
            outcome = measure(workload, config, Place(threads=THREADS), SETTINGS)
            if isinstance(outcome, Failure):
                sys.exit(f"{name}: {outcome.reason}\n{outcome.detail}")
            trials.append(outcome.step_time_s)
            blocks.append(block_s(count + STEPS % (rounds + 1) * (len(trials) == rounds)))
        assert loop.stdin is not None
        loop.stdin.close()
    found = [trial / statistics.fmean(blocks[at : at + 2]) for at, trial in enumerate(trials)]
    return found, statistics.fmean(blocks)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6, choices=[one + 1 for one in T_95])
    parser.add_argument("--examples", nargs="*", default=list(SIZES), choices=list(SIZES))
    given = parser.parse_args()
    print(f"{'example':14} {'loop, ms':>9} {'trial/loop':>11} {'95% interval':>17} {'within 3%':>10}")
    for name in given.examples:
        found, loop_s = ratios(name, given.rounds)
        logs = [math.log(one) for one in found]
        middle = statistics.fmean(logs)
        half = T_95[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
        low, high = math.exp(middle - half), math.exp(middle + half)
        verdict = "yes" if low >= 0.97 and high <= 1.03 else "no" if low > 1.03 or high < 0.97 else "open"
        interval = f"{low:.3f} to {high:.3f}"
        print(
            f"{name:14} {loop_s * 1000:9.1f} {math.exp(middle):11.3f} {interval:>17} {verdict:>10}",
            flush=True,
        )


if __name__ == "__main__":
    main()
