"""Every trial: what was run, how fast it was, what it took, and what went wrong."""

from __future__ import annotations

from pydantic import AliasPath, Field

from planner.reports import formats, labels
from planner.reports.content import Cell, Column, Paragraph, Row, Section, Table
from planner.reports.models import ConfigJson, JsonModel, TextOrNone
from planner.reports.report import Report, TrialRecord
from trials.api import (
    CheckpointCost,
    Failure,
    FailureKind,
    GradientNoise,
    LinkProbe,
    Measurement,
    PeakParts,
    Phases,
)

SHORT = 12


class EnvironmentJson(JsonModel):
    """Where measurements were taken."""

    device_name: str
    device_memory_bytes: int
    driver: str | None
    cuda: str | None
    torch: str
    ray: str | None
    python: str
    host_cpu_count: int
    node_count: int
    threads_per_worker: int | None


class TelemetryJson(JsonModel):
    """What NVML said during the timed steps."""

    sample_count: int
    gpu_utilisation_fraction: float | None
    memory_utilisation_fraction: float | None
    sm_clock_hz: float | None
    sm_clock_max_hz: float | None
    power_w: float | None
    power_limit_w: float | None
    temperature_max_c: float | None
    energy_j: float | None
    throttle_reasons: tuple[str, ...]
    other_process_count: int


class SeriesJson(JsonModel):
    """Raw step times at one accumulation count."""

    accumulation: int
    step_times_s: tuple[float, ...]


class MeasurementJson(JsonModel):
    """What a trial measured."""

    step_time_s: float
    throughput_samples_per_s: float = Field(validation_alias="throughput_per_s")
    half_width_fraction: float
    """Of the 95% interval of the mean step time."""
    is_steady: bool
    is_interpolated: bool
    series: tuple[SeriesJson, ...]
    warmup_step_count: int
    startup_s: float
    first_step_s: float
    peak_allocated_bytes: tuple[int, ...]
    peak_reserved_bytes: tuple[int, ...] | None
    peak_parts: PeakParts | None
    losses: tuple[float, ...]
    phases: Phases | None
    telemetry: TelemetryJson | None
    checkpoint: CheckpointCost | None
    links: LinkProbe | None
    noise: GradientNoise | None
    foreign_cpu_fraction: float | None
    disturbance: TextOrNone
    extras_s: float
    warnings: tuple[str, ...]
    environment: EnvironmentJson


class FailureJson(JsonModel):
    """Why a trial has no result."""

    kind: FailureKind
    reason: str


class TrialJson(JsonModel):
    """One finished trial: a measurement or a failure."""

    number: int
    configuration: ConfigJson = Field(validation_alias=AliasPath("outcome", "config"))
    trial_s: float = Field(validation_alias=AliasPath("outcome", "trial_s"))
    cost_usd: float | None
    peak_fraction: float | None
    measurement: MeasurementJson | None
    failure: FailureJson | None


class Data(JsonModel):
    """Every trial, raw step times included."""

    environments: tuple[EnvironmentJson, ...]
    trials: tuple[TrialJson, ...]


def section(report: Report) -> Section:
    """One row for each; a short form has the latest."""
    data = Data(
        environments=tuple(EnvironmentJson.model_validate(one) for one in report.environments),
        trials=tuple(_json(one) for one in report.trials),
    )
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
        ),
        rows=tuple(_row(report, one) for one in report.trials),
        short_count=SHORT,
        is_latest_last=True,
        is_sortable=True,
    )
    return Section(title="Trials", blocks=(Paragraph(text=note, is_note=True), table), data=data)


def _json(record: TrialRecord) -> TrialJson:
    outcome = record.outcome
    return TrialJson(
        number=record.number,
        configuration=ConfigJson.model_validate(outcome.config),
        trial_s=outcome.trial_s,
        cost_usd=record.cost_usd,
        peak_fraction=record.peak_fraction,
        measurement=MeasurementJson.model_validate(outcome) if isinstance(outcome, Measurement) else None,
        failure=FailureJson.model_validate(outcome) if isinstance(outcome, Failure) else None,
    )


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
        said = "; ".join((labels.outcome(outcome), *outcome.warnings))
    else:
        measured = (Cell(text=""), Cell(text=""), Cell(text=""), Cell(text=""))
        said = labels.outcome(outcome)
    cells = (
        Cell(text=str(record.number), value=record.number),
        Cell(text=formats.times(config.gpu_count, config.gpu)),
        Cell(text=labels.split(config), value=config.micro_batch_size),
        Cell(text=labels.technique(config)),
        *measured,
        Cell(text=formats.usd(record.cost_usd), value=record.cost_usd),
        Cell(text=formats.duration(outcome.trial_s)),
        Cell(text=said),
    )
    is_best = best is not None and config == best.config
    return Row(cells=cells, is_best=is_best, is_failed=isinstance(outcome, Failure))
