"""How long a person waits: `planner --help`, `planner catalog`, and `planner report` on a study of 40 trials.

Prints median and spread of the wall times of whole processes, and which heavy modules they imported.
Usage: python benchmarks/start_up.py [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from catalogs.gpus import load_gpus
from planner.plans.space import configs_for
from planner.search.params import distributions, params_of
from planner.study.store import open_study
from tests.builders import make_profile, make_target, make_workload
from tests.fake_gpu import FakeGpu

TRIAL_COUNT = 40


def fill(url: str) -> None:
    """A study of an L4 with exact numbers."""
    gpus = load_gpus()
    target, profile, fake = make_target(global_batch_size=64), make_profile(), FakeGpu()
    study = open_study(url, make_workload(), "bench")
    study.remember(profile=profile, target=target, notes=(), exclusions=())
    for config in configs_for(target, gpus["L4-24GB"], 1, 1, profile)[:TRIAL_COUNT]:
        optuna_trial = study.ask(params_of(config), distributions(gpus))
        study.start(optuna_trial, config)
        outcome = fake.run_trial(config)
        study.save(optuna_trial, outcome, 0.01, None)
        study.close(optuna_trial.number, outcome, 1.0)


def time_command(arguments: list[str], runs: int) -> tuple[list[float], list[str]]:
    """Wall seconds of each run, and the heavy modules that the command imported."""
    walls = []
    for _ in range(runs):
        begun_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "planner", *arguments], capture_output=True, check=False)
        walls.append(time.perf_counter() - begun_s)
    probe = (
        "import sys; from planner.__main__ import run; run(sys.argv[1:]); "
        "print([m for m in ('torch', 'ray', 'optuna', 'pandas') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, *arguments], capture_output=True, text=True, check=False
    )
    return walls, [done.stderr.strip().splitlines()[-1]]


def main(runs: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/study.db"
        fill(url)
        report = ["report", "bench", "--storage", url, "--budget", "100", "--out", f"{folder}/report"]
        print(f"{'command':28} {'median s':>9} {'min':>6} {'max':>6}  imported")
        for name, arguments in {
            "planner --help": ["--help"],
            "planner catalog": ["catalog"],
            f"planner report ({TRIAL_COUNT} trials)": report,
        }.items():
            walls, imported = time_command(arguments, runs)
            spread = f"{min(walls):6.2f} {max(walls):6.2f}"
            print(f"{name:28} {statistics.median(walls):9.2f} {spread}  {imported[0]}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
