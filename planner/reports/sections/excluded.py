"""What was not tried, and why."""

from __future__ import annotations

from planner.plans.space import Exclusion
from planner.reports.content import Field, Fields, Section
from planner.reports.models import JsonModel
from planner.reports.report import Report


class Data(JsonModel):
    """Every knob that was left out."""

    exclusions: tuple[Exclusion, ...]


def section(report: Report) -> Section:
    """One line for each."""
    rows = tuple(Field(name=one.knob, text=one.reason) for one in report.exclusions)
    return Section(
        title="Not tried",
        blocks=(Fields(rows=rows),) if rows else (),
        data=Data(exclusions=report.exclusions),
    )
