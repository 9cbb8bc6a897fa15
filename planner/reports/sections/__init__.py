"""The sections of a report, in the order in which every form shows them: one file each."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import create_model

from planner.reports.content import Section
from planner.reports.models import JsonModel
from planner.reports.report import Report
from planner.reports.sections import (
    answer,
    batch_size,
    bill,
    bottleneck,
    cautions,
    excluded,
    firmness,
    frontier,
    measured,
    numerics,
    plan,
    plans,
    renting,
    settling,
    sources,
    trials,
    why,
)

SECTIONS: tuple[tuple[Callable[[Report], Section], type[JsonModel] | None], ...] = (
    (answer.section, answer.Data),
    (cautions.section, cautions.Data),
    (why.section, why.Data),
    (renting.section, renting.Data),
    (plan.section, None),
    (firmness.section, firmness.Data),
    (settling.section, settling.Data),
    (frontier.section, frontier.Data),
    (plans.section, plans.Data),
    (bill.section, None),
    (batch_size.section, batch_size.Data),
    (bottleneck.section, bottleneck.Data),
    (numerics.section, numerics.Data),
    (measured.section, measured.Data),
    (trials.section, trials.Data),
    (excluded.section, excluded.Data),
    (sources.section, sources.Data),
)

ReportJson: type[JsonModel] = create_model(
    "ReportJson",
    __base__=tuple(data for _, data in reversed(SECTIONS) if data is not None),
    __doc__="A report: base units in the keys, nothing rounded, null is unknown.",
)
"""The JSON report: the keys of every section."""


def sections_of(report: Report) -> tuple[Section, ...]:
    """Every section with what it has to say."""
    return tuple(make(report) for make, _ in SECTIONS)
