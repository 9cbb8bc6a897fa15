"""The same trials of the GPT example, by a warm group and by a fresh ``TorchTrainer.fit`` each.

    python -m benchmarks.warm_or_fresh [--model examples/gpt.py] [--max-s 30]

The list is such as a sweep on two cores tries: micro batch sizes, precisions, one and two workers. Both ways
measure with the same code and settings, the whole list by fresh fits first; the warm group's time holds the
start and the end of its workers. Told apart are the wall time of each list and what of it was spent in the
trials themselves (building, warming up, steps, cleaning up); the step times show that both measured the same.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.this_machine import CPU, cpu_group
from benchmarks.trial_overhead import fresh_fit_s
from trials.cluster.attach import attach
from trials.measurement import Measurement, Outcome
from trials.measuring.settings import MeasureSettings
from trials.model_file.source import hash_workload
from trials.runner import RunnerSettings, open_runner
from trials.trial import Parallelism, Precision, TrialConfig, Workload

MODEL = Path(__file__).parents[1] / "examples" / "gpt.py"
GLOBAL_BATCH_SIZE = 64
TRIALS = (  # micro batch size, precision, workers
    (8, Precision.FP32, 1),
    (32, Precision.FP32, 1),
    (8, Precision.BF16, 1),
    (32, Precision.BF16, 1),
    (64, Precision.BF16, 1),
    (8, Precision.BF16, 2),
    (32, Precision.BF16, 2),
)


def configs() -> list[TrialConfig]:
    """The list."""
    return [
        TrialConfig(
            gpu=CPU,
            gpu_count=workers,
            micro_batch_size=size,
            accumulation=GLOBAL_BATCH_SIZE // size // workers,
            precision=precision,
            parallelism=Parallelism.SINGLE if workers == 1 else Parallelism.DDP,
        )
        for size, precision, workers in TRIALS
    ]


def run_fresh(
    workload: Workload, config: TrialConfig, settings: MeasureSettings, cores: int
) -> tuple[float, Outcome]:
    """Wall seconds of a whole fit whose loop is one trial, and what came of the trial."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "outcome"

        def work() -> None:
            import ray.train
            import torch.distributed as dist

            from trials.measuring.measure import measure, merge
            from trials.rank_context import RankContext

            rank = ray.train.get_context().get_world_rank()
            group = dist.group.WORLD if config.gpu_count > 1 else None
            context = RankContext(
                rank=rank,
                world_size=config.gpu_count,
                process_group=group,
                threads=max(1, cores // config.gpu_count),
            )
            outcome = measure(workload, config, context, settings)
            found: list[Outcome] = [outcome]
            if group is not None:
                found *= config.gpu_count
                dist.all_gather_object(found, outcome)
            if rank == 0:
                answer.write_bytes(pickle.dumps(merge(found)))

        wall_s = fresh_fit_s(config.gpu_count, cores, work)
        outcome: Outcome = pickle.loads(answer.read_bytes())
        return wall_s, outcome


def table(trials: Sequence[TrialConfig], fresh: Sequence[Outcome], warm: Sequence[Outcome]) -> None:
    """A line for each trial."""
    print(f"{'micro batch':>11} {'precision':>9} {'workers':>7} {'step, fresh':>12} {'step, warm':>11}")
    for config, one, other in zip(trials, fresh, warm, strict=True):
        assert isinstance(one, Measurement), one
        assert isinstance(other, Measurement), other
        print(
            f"{config.micro_batch_size:11} {config.precision:>9} {config.gpu_count:7}"
            f" {one.step_time_s:10.3f} s {other.step_time_s:9.3f} s"
        )


def main() -> None:
    """Print both lists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--max-s", type=float, default=MeasureSettings().max_s, help="of timed steps")
    given = parser.parse_args()
    workload, trials = hash_workload(given.model), configs()
    settings = MeasureSettings(max_s=given.max_s)
    with attach():
        group = cpu_group()
        cores = group.nodes[0].cpu_count
        fresh = [run_fresh(workload, one, settings, cores) for one in trials]
        begun_s = time.perf_counter()
        how = RunnerSettings(measure_settings=settings, worker_counts={CPU: 2})
        with open_runner(workload, [group], how) as run:
            warm = [run(one) for one in trials]
        warm_s = time.perf_counter() - begun_s
    table(trials, [one for _, one in fresh], warm)
    for name, wall_s, outcomes in (
        ("a fresh fit each", sum(seconds for seconds, _ in fresh), [one for _, one in fresh]),
        ("one warm group", warm_s, warm),
    ):
        trials_s = sum(one.trial_s for one in outcomes)
        print(
            f"{name:18} {wall_s:6.0f} s for {len(trials)} trials, of it in trials {trials_s:4.0f} s", end=""
        )
        print(f", besides {wall_s - trials_s:4.0f} s")


if __name__ == "__main__":
    main()
