"""What the operation trace alone says, before any trial: the same report as of a study without trials."""

from __future__ import annotations

import os
import shutil
import sys

from planner.codec import to_json
from planner.commands.answer import report_of
from planner.commands.prices import Prices
from planner.live import say
from planner.reports import formats, to_terminal
from planner.reports.report import Report
from planner.study.saved import SavedStudy
from planner.study.storage import default_storage_url
from planner.target import Target
from trials.profile import WorkloadProfile
from trials.trial import Workload


def traced_report(
    workload: Workload, profile: WorkloadProfile, target: Target, prices: Prices, storage_url: str | None = None
) -> Report:
    """The report that rests on the workload's traces alone, its sweep free of charge."""
    attributes = {"workload": to_json(workload), "profile": to_json(profile), "target": to_json(target)}
    url = storage_url or default_storage_url()
    study = SavedStudy(name="trace", attributes=attributes, storage_url=url)
    return report_of(study, target, prices)


def say_first_answer(report: Report) -> None:
    """Say on stderr what is best by the trace, and what trials would add."""
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() or "COLUMNS" in os.environ else None
    say("before any trial, by the operation trace alone:")
    print(to_terminal.render(report, width, is_coloured=sys.stderr.isatty(), is_head=True), file=sys.stderr)
    say(what_trials_add(report))


def what_trials_add(report: Report) -> str:
    """What the trials of a sweep tell that the trace does not, in one sentence."""
    winner = report.recommendation.best
    if winner is None:
        return "trials measure what the trace cannot tell"
    cost = winner.cost_usd
    return (
        f"trials replace the prediction: the cost of {formats.usd(cost.low)} to {formats.usd(cost.high)} becomes"
        " narrower by what is measured here, and data loading, start-up and the numerics of each precision are"
        " seen, which no trace has"
    )
