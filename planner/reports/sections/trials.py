"""Every trial: what was run, how fast it was, what it took, and what went wrong."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from planner.reports import formats, labels
from planner.reports.content import Cell, Column, Paragraph, Row, Section, Table
from planner.reports.models import ConfigJson, JsonModel, TextOrNone
from planner.reports.report import Report, TrialRecord
from trials.api import (
    CheckpointCost,
    Environment,
    Failure,
    FailureKind,
    GradientNoise,
    LinkProbe,
    Measurement,
    Outcome,
    PeakParts,
    Phases,
    Series,
    Telemetry,
)

SHORT = 12


class MeasurementJson(JsonModel):
    """What a trial measured."""

    step_time_s: float
    throughput_samples_per_s: float = Field(validation_alias="throughput_per_s")
    half_width_fraction: float
    """Of the 95% interval of the mean step time."""
    is_steady: bool
    is_interpolated: bool
    series: tuple[Series, ...]
    warmup_step_count: int
    startup_s: float
    first_step_s: float
    peak_allocated_bytes: tuple[int, ...]
    peak_reserved_bytes: tuple[int, ...] | None
    peak_parts: PeakParts | None
    losses: tuple[float, ...]
    phases: Phases | None
    telemetry: Telemetry | None
    checkpoint: CheckpointCost | None
    links: LinkProbe | None
    noise: GradientNoise | None
    foreign_cpu_fraction: float | None
    disturbance: TextOrNone
    extras_s: float
    warnings: tuple[str, ...]
    environment: Environment


class FailureJson(JsonModel):
    """Why a trial has no result."""

    kind: FailureKind
    reason: str


def _only(kind: type[Outcome]) -> BeforeValidator:
    """Null for an outcome of another kind."""
    return BeforeValidator(lambda outcome: outcome if isinstance(outcome, kind) else None)


class TrialJson(JsonModel):
    """One finished trial: a measurement or a failure."""

    number: int
    configuration: ConfigJson = Field(validation_alias=AliasPath("outcome", "config"))
    trial_s: float = Field(validation_alias=AliasPath("outcome", "trial_s"))
    cost_usd: float | None
    peak_fraction: float | None
    measurement: Annotated[MeasurementJson | None, _only(Measurement)] = Field(validation_alias="outcome")
    failure: Annotated[FailureJson | None, _only(Failure)] = Field(validation_alias="outcome")


class Data(JsonModel):
    """Every trial, raw step times included."""

    environments: tuple[Environment, ...]
    trials: tuple[TrialJson, ...]


def section(report: Report) -> Section:
    """One row for each; a short form has the latest."""
    data = Data.model_validate(report)
    if not report.trials:
        return Section(title="", blocks=(), data=data)
    note = (
        "Batch is the micro batch size times the accumulation. A step is one optimizer step, the mean "
        "of those timed but for rare outliers, with the half width of the mean's 95% interval."
    )
    table = Table(
        label="all trials",
        columns=(
            Column(name="trial", is_number=True),
            Column(name="device", wrap_to=11),
            Column(name="batch", is_number=True),
            Column(name="technique", wrap_to=9),
            Column(name="step", is_number=True, drop=2),
            Column(name="\N{PLUS-MINUS SIGN}", drop=3, is_under=True),
            Column(name="throughput", is_number=True),
            Column(name="peak memory", is_number=True, drop=1),
            Column(name="cost", is_number=True, drop=4),
            Column(name="took", drop=5, is_under=True),
            Column(name="outcome", wrap_to=16),
            Column(name="warnings", drop=6, is_under=True),
        ),
        rows=tuple(_row(report, one) for one in report.trials),
        short_count=SHORT,
        is_latest_last=True,
        is_sortable=True,
    )
    return Section(title="Trials", blocks=(Paragraph(text=note, is_note=True), table), data=data)


def _row(report: Report, record: TrialRecord) -> Row:
    outcome, best = record.outcome, report.recommendation.best
    config = outcome.config
    if isinstance(outcome, Measurement):
        rate = formats.rate(outcome.throughput_per_s, report.profile.tokens_per_sample)
        measured = (
            Cell(text=formats.duration(outcome.step_time_s), value=outcome.step_time_s),
            Cell(text=formats.plus_minus(outcome.half_width_fraction)),
            Cell(text=rate, value=outcome.throughput_per_s, is_strong=True),
            Cell(text=formats.size(outcome.peak_memory_bytes), value=outcome.peak_memory_bytes),
        )
        cautions = "; ".join(outcome.warnings)
    else:
        measured = (Cell(text=""), Cell(text=""), Cell(text=""), Cell(text=""))
        cautions = ""
    cells = (
        Cell(text=str(record.number), value=record.number),
        Cell(text=formats.times(config.gpu_count, config.gpu)),
        Cell(text=labels.split(config), value=config.micro_batch_size),
        Cell(text=labels.technique(config)),
        *measured,
        Cell(text=formats.usd(record.cost_usd), value=record.cost_usd),
        Cell(text=formats.duration(outcome.trial_s)),
        Cell(text=labels.outcome(outcome)),
        Cell(text=cautions),
    )
    is_best = best is not None and config == best.config
    return Row(cells=cells, is_best=is_best, is_failed=isinstance(outcome, Failure))
