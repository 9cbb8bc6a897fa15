"""What was not tried, and why."""

from __future__ import annotations

from planner.reports.content import Field, Fields, Section
from planner.reports.models import JsonModel
from planner.reports.report import Report


class ExclusionJson(JsonModel):
    """A knob that was left out."""

    knob: str
    reason: str


class Data(JsonModel):
    """Every knob that was left out."""

    exclusions: tuple[ExclusionJson, ...]


def section(report: Report) -> Section:
    """One line for each."""
    rows = tuple(Field(name=one.knob, text=one.reason) for one in report.exclusions)
    return Section(
        title="Not tried",
        blocks=(Fields(rows=rows),) if rows else (),
        data=Data(exclusions=tuple(ExclusionJson.model_validate(one) for one in report.exclusions)),
    )
