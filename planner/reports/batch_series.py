"""Throughput and peak memory over the micro batch size, as series to be drawn, one panel for each device."""

from __future__ import annotations

from dataclasses import dataclass

from planner.estimate.values import Estimate
from planner.reports import formats, labels
from planner.reports.report import Curve, Report, TrialRecord
from trials.trial import Failure, FailureKind, Measurement, TrialConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One trial, or one point of an estimated curve."""

    micro_batch_size: int
    throughput: Estimate | None  # samples per second
    peak_bytes: Estimate | None
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSeries:
    """One technique: what was measured, and the estimated curve where there is one."""

    name: str
    colour: int  # the same for a technique on every panel
    measured: tuple[Point, ...]  # ascending by micro batch size
    curve: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One device type and count."""

    key: str  # unique on the page
    name: str
    series: tuple[BatchSeries, ...]
    overflows: tuple[Point, ...]  # trials that ran out of memory
    limit_bytes: int | None  # that one worker has


def panels(report: Report) -> tuple[Panel, ...]:
    """A panel for each device type and count with at least one measurement, in the order of the trials."""
    groups: dict[tuple[str, int, int], list[TrialRecord]] = {}
    for record in report.trials:
        groups.setdefault(_device(record.outcome.config), []).append(record)
    names = dict.fromkeys(labels.technique(one.config) for one in report.measurements)
    colours = {name: index for index, name in enumerate(names)}
    return tuple(
        _panel(f"panel-{index}", records, report, colours)
        for index, records in enumerate(groups.values())
        if any(isinstance(one.outcome, Measurement) for one in records)
    )


def _panel(key: str, records: list[TrialRecord], report: Report, colours: dict[str, int]) -> Panel:
    config = records[0].outcome.config
    techniques: dict[str, list[Point]] = {}
    limits: list[int] = []
    for record in records:
        if isinstance(record.outcome, Measurement):
            name = labels.technique(record.outcome.config)
            techniques.setdefault(name, []).append(_measured(record.number, record.outcome, report))
            limits.append(report.memory_limit_bytes(record.outcome))
    curves = {
        labels.technique(one.points[0].config): one
        for one in report.curves
        if one.points and _device(one.points[0].config) == _device(config)
    }
    return Panel(
        key=key,
        name=formats.times(config.gpu_count, config.gpu),
        series=tuple(
            BatchSeries(
                name=name,
                colour=colours[name],
                measured=tuple(sorted(points, key=lambda one: one.micro_batch_size)),
                curve=_curve(curves[name]) if name in curves else (),
            )
            for name, points in techniques.items()
        ),
        overflows=tuple(_overflow(one.number, one.outcome) for one in records if _is_overflow(one)),
        limit_bytes=min(limits, default=None),
    )


def _device(config: TrialConfig) -> tuple[str, int, int]:
    return config.gpu, config.gpu_count, config.node_count


def _is_overflow(record: TrialRecord) -> bool:
    outcome = record.outcome
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY


def _measured(number: int, one: Measurement, report: Report) -> Point:
    throughput, peak = report.measured_throughput(one), report.measured_peak(one)
    rate = formats.rate(throughput.expected, report.profile.tokens_per_sample)
    return Point(
        micro_batch_size=one.config.micro_batch_size,
        throughput=throughput,
        peak_bytes=peak,
        title=(
            f"trial {number}: {labels.split(one.config)}, {labels.technique(one.config)}: {rate} "
            f"({formats.percent(one.half_width_fraction)} either way), {formats.size(peak.expected)}"
        ),
    )


def _overflow(number: int, one: Failure | Measurement) -> Point:
    return Point(
        micro_batch_size=one.config.micro_batch_size,
        throughput=None,
        peak_bytes=None,
        title=f"trial {number}: {labels.split(one.config)}, {labels.technique(one.config)}: out of memory",
    )


def _curve(curve: Curve) -> tuple[Point, ...]:
    return tuple(
        Point(
            micro_batch_size=one.config.micro_batch_size,
            throughput=one.throughput_per_s,
            peak_bytes=one.peak_memory_bytes,
            title="",
        )
        for one in curve.points
    )
