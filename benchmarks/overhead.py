"""What a sweep costs beside its measuring, from the outside: wall clock, study and exit of a real process.

    python -m benchmarks.overhead [MODEL] [--max-minutes 4] [--before CHECKOUT] [-- flags of planner sweep]

Three numbers, and where the rest of the time went: seconds from the command to the first timed step; seconds
of a trial that are not timed steps; the share of the wall time in timed steps (aim: over 60%). Warm-up steps
are counted by their number and the mean of the timed ones. ``--before`` sweeps with the code of another
checkout first, so that two versions can be compared. Needs Ray, Optuna and a device; any will do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from planner.study.listing import summaries
from planner.study.store import load_study
from trials.measurement import Measurement, Outcome

ROOT = Path(__file__).parent.parent
AIM_FRACTION = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTrial:
    """A finished trial and when it held the study's attention."""

    outcome: Outcome
    begun: datetime
    ended: datetime

    @property
    def wall_s(self) -> float:
        """From asking for it to having it saved."""
        return (self.ended - self.begun).total_seconds()

    @property
    def timed_s(self) -> float:
        """Of timed steps; 0 for a failure."""
        if not isinstance(self.outcome, Measurement):
            return 0.0
        return sum(sum(one.step_times_s) for one in self.outcome.series)

    @property
    def warmup_s(self) -> float:
        """Of warm-up steps after the first, by their number and the mean step of the first series."""
        if not isinstance(self.outcome, Measurement):
            return 0.0
        return max(self.outcome.warmup_step_count - 1, 0) * self.outcome.series[0].step_s

    @property
    def startup_s(self) -> float:
        """Building model, data and wrapper."""
        return self.outcome.startup_s if isinstance(self.outcome, Measurement) else 0.0

    @property
    def first_step_s(self) -> float:
        """With lazy initialisation and compilation."""
        return self.outcome.first_step_s if isinstance(self.outcome, Measurement) else 0.0

    @property
    def extras_s(self) -> float:
        """Timing the links and saving a checkpoint, which only the first trial of a shape does."""
        return self.outcome.extras_s if isinstance(self.outcome, Measurement) else 0.0

    @property
    def rest_s(self) -> float:
        """Of the trial in the worker: passes for the phases, memory profile, cleaning up, failures."""
        known_s = self.timed_s + self.warmup_s + self.startup_s + self.first_step_s + self.extras_s
        return max(self.outcome.trial_s - known_s, 0.0)


def sweep(
    model: str, minutes: float, folder: Path, more: list[str], root: Path = ROOT
) -> tuple[datetime, datetime]:
    """Run `planner sweep` of the checkout at ``root`` to its end; when it began and ended."""
    command = [sys.executable, "-m", "planner", "sweep", model, "--budget", "5", "--sweep-budget", "1"]
    command += ["--max-minutes", str(minutes), "--storage", f"sqlite:///{folder / 'study.db'}"]
    command += ["--out", str(folder / "report"), *more]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    }
    begun = datetime.now()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, check=False)
    if done.returncode not in {0, 3}:  # a plan, or nothing fits
        sys.exit(f"{' '.join(command)}\n{done.stderr[-4000:]}")
    return begun, datetime.now()


def trials_of(url: str) -> list[TimedTrial]:
    """What the study holds, in order."""
    study = load_study(url, summaries(url)[0].name)
    outcomes = {one.number: one.outcome for one in study.trials()}
    found = []
    for one in study.optuna_study.get_trials(deepcopy=False):
        if one.number in outcomes and one.datetime_start and one.datetime_complete:
            trial = TimedTrial(
                outcome=outcomes[one.number], begun=one.datetime_start, ended=one.datetime_complete
            )
            found.append(trial)
    return found


def report(trials: list[TimedTrial], begun: datetime, ended: datetime) -> None:
    """Print the numbers."""
    wall_s = (ended - begun).total_seconds()
    first = next(one for one in trials if isinstance(one.outcome, Measurement))
    left_s = first.outcome.trial_s - first.startup_s - first.first_step_s - first.warmup_s
    first_step_s = (first.ended - begun).total_seconds() - left_s
    timed_s = sum(one.timed_s for one in trials)
    others = trials[1:]
    waiting_s = sum(one.wall_s - one.outcome.trial_s for one in others)
    failed = sum(not isinstance(one.outcome, Measurement) for one in trials)
    print(f"{len(trials)} trials ({failed} failed) in {wall_s:.1f} s")
    print(f"from the command to the first timed step: {first_step_s:.1f} s")
    if others:
        aside_s = statistics.median(one.wall_s - one.timed_s for one in others)
        print(f"of a trial after the first, not timed steps (median): {aside_s:.2f} s")
    print(f"wall time in timed steps: {timed_s / wall_s:.1%} (aim: over {AIM_FRACTION:.0%})")
    rows = {
        "command to the first trial: imports, check and trace, cluster, search": (
            trials[0].begun - begun
        ).total_seconds(),
        "first trial: start of the workers, saving": trials[0].wall_s - trials[0].outcome.trial_s,
        "building model and data": sum(one.startup_s for one in trials),
        "first steps": sum(one.first_step_s for one in trials),
        "other warm-up steps": sum(one.warmup_s for one in trials),
        "timed steps": timed_s,
        "links, checkpoint, lengths, once": sum(one.extras_s for one in trials),
        "phases, memory profile, clean-up, failed trials": sum(one.rest_s for one in trials),
        "later trials: replaced workers, orders, saving": waiting_s,
        "between trials: fitting and choosing": sum(
            (after.begun - before.ended).total_seconds() for before, after in pairwise(trials)
        ),
        "last trial to the end: report, shutting down": (ended - trials[-1].ended).total_seconds(),
    }
    for name, seconds in rows.items():
        print(f"  {name:70} {seconds:7.1f} s {seconds / wall_s:6.1%}")
    print(f"  {'not accounted for':70} {wall_s - sum(rows.values()):7.1f} s")


def main() -> None:
    """Sweep, then report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=str(ROOT / "examples" / "gpt.py"))
    parser.add_argument("--max-minutes", type=float, default=4.0)
    parser.add_argument("--before", type=Path, help="a checkout to sweep with first")
    given, more = parser.parse_known_args()
    flags = [one for one in more if one != "--"]
    for name, root in (("before", given.before), ("now", ROOT)):
        if root is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            begun, ended = sweep(
                str(Path(given.model).resolve()), given.max_minutes, Path(folder), flags, root
            )
            trials = trials_of(f"sqlite:///{Path(folder) / 'study.db'}")
        if given.before is not None:
            print(f"{name}:")
        report(trials, begun, ended)


if __name__ == "__main__":
    main()
