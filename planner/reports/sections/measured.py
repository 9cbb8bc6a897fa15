"""What was measured over the micro batch size: throughput and peak memory, with the estimated curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import BeforeValidator, Field

from planner.estimate.values import Estimate
from planner.reports import formats, labels
from planner.reports.chart import Axis, Chart, ChartSeries, Limit, Point, Scale, Ticks
from planner.reports.content import Plots, Section
from planner.reports.models import ConfigJson, JsonModel
from planner.reports.report import Curve, CurvePoint, Report, TrialRecord
from trials.api import Failure, FailureKind, Measurement, TrialConfig

COLOURS = 6  # classes series-0 to series-5 of the style sheet; what is beyond shares the last, which is grey

Of = Callable[[Measurement | CurvePoint], Estimate | None]


class CurvePointJson(JsonModel):
    """A point of an estimated curve."""

    configuration: ConfigJson = Field(validation_alias="config")
    throughput_samples_per_s: Estimate | None = Field(validation_alias="throughput_per_s")
    peak_memory_bytes: Estimate | None


class Data(JsonModel):
    """The estimator's curves through what was measured."""

    curves: tuple[Annotated[tuple[CurvePointJson, ...], BeforeValidator(lambda curve: curve.points)], ...]


def section(report: Report) -> Section:
    """Two plots for each device type and count with a measurement, in the order of the trials."""
    data = Data.model_validate(report)
    groups: dict[tuple[str, int, int], list[TrialRecord]] = {}
    for record in report.trials:
        groups.setdefault(_device(record.outcome.config), []).append(record)
    panels = [
        _panel(f"panel-{index}", records, report)
        for index, records in enumerate(groups.values())
        if any(isinstance(one.outcome, Measurement) for one in records)
    ]
    if not panels:
        return Section(title="", blocks=(), data=data)
    level = formats.percent(report.recommendation.confidence)
    note = "Points are trials." + (
        f" Lines and bands are estimates with their {level} interval." if report.curves else ""
    )
    blocks = (replace(panels[0], note=note), *panels[1:])
    return Section(title="Throughput and memory by micro batch size", blocks=blocks, data=data)


def _panel(key: str, records: list[TrialRecord], report: Report) -> Plots:
    """One device type and count."""
    config = records[0].outcome.config
    name = formats.times(config.gpu_count, config.gpu)
    limits = [
        report.memory_limit_bytes(one.outcome) for one in records if isinstance(one.outcome, Measurement)
    ]
    overflows = tuple(_overflow(one, min(limits)) for one in records if _is_overflow(one))
    tokens = report.profile.tokens_per_sample
    rate_unit = "tokens" if tokens else "samples"
    throughput = _chart(
        records,
        report,
        key=f"{key}-throughput",
        title=f"Throughput over micro batch size on {name}",
        caption=f"Throughput, {rate_unit} per second",
        y=Axis(
            title=f"{rate_unit}/s",
            show=lambda per_s: formats.rate(per_s, tokens).rpartition(" ")[0],
            scale=Scale.FROM_ZERO,
            unit=1 / (tokens or 1),
        ),
        of=partial(_throughput, report),
    )
    crosses = "; a cross ran out of memory" if overflows else ""
    memory = _chart(
        records,
        report,
        key=f"{key}-memory",
        title=f"Peak memory over micro batch size on {name}",
        caption=f"Peak memory of a worker{crosses}",
        y=Axis(
            title="peak memory of a worker",
            show=formats.size,
            scale=Scale.FROM_ZERO,
            unit=formats.GIB,
            limits=(Limit(value=min(limits), label=f"{formats.size(min(limits))} on the device"),),
        ),
        of=partial(_peak, report),
        more=(ChartSeries(points=overflows),),
    )
    return Plots(title=name, charts=(throughput, memory))


def _chart(
    records: list[TrialRecord],
    report: Report,
    *,
    key: str,
    title: str,
    caption: str,
    y: Axis,
    of: Of,
    more: tuple[ChartSeries, ...] = (),
) -> Chart:
    device = _device(records[0].outcome.config)
    curves = {
        labels.technique(one.points[0].config): one
        for one in report.curves
        if one.points and _device(one.points[0].config) == device
    }
    all_names = list(dict.fromkeys(labels.technique(one.config) for one in report.measurements))
    techniques: dict[str, list[Point]] = {}
    for record in records:
        if isinstance(record.outcome, Measurement):
            name = labels.technique(record.outcome.config)
            techniques.setdefault(name, []).append(_measured(record.number, record.outcome, report, of))
    series: list[ChartSeries] = []
    for name, points in techniques.items():
        colour = f"series-{min(all_names.index(name), COLOURS - 1)}"
        curve = _curve(curves[name], of) if name in curves else ()
        if len(curve) > 1:
            series.append(ChartSeries(points=curve, colour=colour, line="curve", has_band=True))
        in_order = tuple(sorted(points, key=lambda one: one.x))
        series.append(
            ChartSeries(points=in_order, name=name, colour=colour, line="" if len(curve) > 1 else "through")
        )
    told = " ".join(
        f"{one.name}: {', '.join(f'{y.show(point.y)} at {point.x:g}' for point in one.points)}."
        for one in series
        if one.name
    )
    return Chart(
        key=key,
        title=title,
        description=f"{y.title}. {told}",
        x=Axis(title="micro batch size", show=lambda size: f"{size:g}", scale=Scale.LOG, ticks=Ticks.VALUES),
        y=y,
        series=(*series, *more),
        caption=caption,
    )


def _throughput(report: Report, one: Measurement | CurvePoint) -> Estimate | None:
    return report.measured_throughput(one) if isinstance(one, Measurement) else one.throughput_per_s


def _peak(report: Report, one: Measurement | CurvePoint) -> Estimate | None:
    return report.measured_peak(one) if isinstance(one, Measurement) else one.peak_memory_bytes


def _device(config: TrialConfig) -> tuple[str, int, int]:
    return config.gpu, config.gpu_count, config.node_count


def _is_overflow(record: TrialRecord) -> bool:
    outcome = record.outcome
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY


def _measured(number: int, one: Measurement, report: Report, of: Of) -> Point:
    value = of(one)
    assert value is not None  # a measurement has both
    rate = formats.rate(one.throughput_per_s, report.profile.tokens_per_sample)
    return Point(
        x=one.config.micro_batch_size,
        y=value.expected,
        y_interval=value,
        mark="trial-point",
        title=(
            f"trial {number}: {labels.split(one.config)}, {labels.technique(one.config)}: {rate} "
            f"({formats.percent(one.half_width_fraction)} either way), {formats.size(one.peak_memory_bytes)}"
        ),
    )


def _overflow(record: TrialRecord, limit_bytes: int) -> Point:
    config = record.outcome.config
    title = f"trial {record.number}: {labels.split(config)}, {labels.technique(config)}: out of memory"
    return Point(x=config.micro_batch_size, y=limit_bytes, title=title, mark="overflow", is_failure=True)


def _curve(curve: Curve, of: Of) -> tuple[Point, ...]:
    known = [(one.config.micro_batch_size, of(one)) for one in curve.points]
    return tuple(Point(x=size, y=value.expected, y_interval=value) for size, value in known if value)
