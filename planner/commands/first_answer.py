"""What the operation trace alone says, before any trial: the same report as of a study without trials."""

from __future__ import annotations

import sys
from pathlib import Path

from planner.codec import to_json
from planner.live import say
from planner.reports import formats, to_terminal
from planner.reports.report import Report
from planner.study.saved import SavedStudy
from planner.target import Target
from trials.api import Workload, WorkloadProfile


def traced_study(
    workload: Workload, profile: WorkloadProfile, target: Target, storage_url: str
) -> SavedStudy:
    """The workload as a study without trials: all that is said of it rests on its traces."""
    attributes = {"workload": to_json(workload), "profile": to_json(profile), "target": to_json(target)}
    name = f"{Path(workload.path).stem} by its trace"
    return SavedStudy(name=name, attributes=attributes, storage_url=storage_url)


def say_first_answer(report: Report) -> None:
    """Say on stderr what is best by the trace, and what trials would add."""
    width = to_terminal.width_of(sys.stderr)
    say("before any trial, by the operation trace alone:")
    print(to_terminal.render(report, width, is_coloured=sys.stderr.isatty(), is_head=True), file=sys.stderr)
    say(what_trials_add(report))


def what_trials_add(report: Report) -> str:
    """What the trials of a sweep tell that the trace does not, in one sentence."""
    winner = report.recommendation.best
    if winner is None:
        return "trials measure what the trace cannot tell"
    low, high = formats.usd(winner.cost_usd.low), formats.usd(winner.cost_usd.high)
    narrows = "" if low == high else f"narrow the interval of {low} to {high}, and "
    return (
        f"trials {narrows}see what no trace has: data loading, start-up, and whether a low precision trains"
        " as fp32 does"
    )
