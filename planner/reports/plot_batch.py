"""Throughput and memory over the micro batch size: measured points, estimated curves with their band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from planner.estimate.values import Estimate
from planner.reports import formats, svg
from planner.reports.axes import Axis, log_axis, ticks
from planner.reports.batch_series import BatchSeries, Panel, Point

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 132, 14, 46
LABEL_STEP = 15
TICK_WIDTH = 22.0
COLOURS = 6  # classes series-0 to series-5 of the style sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantity:
    """What is drawn upwards."""

    key: str
    title: str
    axis: str
    of: Callable[[Point], Estimate | None]
    show: formats.Show
    unit: float  # of the labels, in base units: round numbers of it are the ticks


def throughput_plot(panel: Panel, tokens_per_sample: int | None) -> Markup:
    """Samples or tokens per second over the micro batch size."""
    quantity = _Quantity(
        key="throughput",
        title=f"Throughput over micro batch size on {panel.name}",
        axis="tokens/s" if tokens_per_sample else "samples/s",
        of=lambda point: point.throughput,
        show=lambda per_s: formats.rate(per_s, tokens_per_sample).rpartition(" ")[0],
        unit=1 / (tokens_per_sample or 1),
    )
    return _plot(panel, quantity, None)


def memory_plot(panel: Panel) -> Markup:
    """Peak memory of the fullest worker, with what one has."""
    quantity = _Quantity(
        key="memory",
        title=f"Peak memory over micro batch size on {panel.name}",
        axis="peak memory of a worker",
        of=lambda point: point.peak_bytes,
        show=formats.size,
        unit=formats.GIB,
    )
    return _plot(panel, quantity, panel.limit_bytes)


def _plot(panel: Panel, quantity: _Quantity, limit: int | None) -> Markup:
    points = [point for one in panel.series for point in (*one.measured, *one.curve)]
    sizes = [one.micro_batch_size for one in (*points, *(panel.overflows if limit else ()))]
    highs = [estimate.high for one in points if (estimate := quantity.of(one)) is not None]
    x = log_axis(sizes, LEFT, WIDTH - RIGHT)
    top = max([*highs, *([limit] if limit else [])], default=1.0)
    y = Axis(low=0.0, high=top * 1.12, start_px=HEIGHT - BOTTOM, end_px=TOP)
    marks = [*_grid(x, y, sizes, quantity)]
    if limit:
        marks += _limit(y, limit)
    for series in panel.series:
        marks += _series(series, _colour(series), x, y, quantity)
    if limit:
        marks += [
            svg.cross(x.px(one.micro_batch_size), y.px(limit), 4.5, "overflow", one.title)
            for one in panel.overflows
        ]
    marks += _end_labels(panel.series, x, y, quantity)
    return svg.figure(
        WIDTH, HEIGHT, quantity.title, _description(panel, quantity), marks, f"{panel.key}-{quantity.key}"
    )


def _grid(x: Axis, y: Axis, sizes: Sequence[int], quantity: _Quantity) -> list[Markup]:
    parts = []
    scaled = Axis(low=0.0, high=y.high / quantity.unit, start_px=0.0, end_px=1.0)
    for value in (one * quantity.unit for one in ticks(scaled, 4)):
        parts.append(svg.line(LEFT, y.px(value), WIDTH - RIGHT, y.px(value), "grid"))
        parts.append(svg.text(LEFT - 8, y.px(value) + 4, quantity.show(value), "tick", "end"))
    taken_px = -TICK_WIDTH
    for size in sorted(set(sizes)):
        if x.px(size) >= taken_px + TICK_WIDTH:
            taken_px = x.px(size)
            parts.append(svg.text(taken_px, HEIGHT - BOTTOM + 18, str(size), "tick", "middle"))
    parts.append(svg.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "micro batch size", "axis", "middle"))
    return parts


def _limit(y: Axis, limit: int) -> list[Markup]:
    at = y.px(limit)
    return [
        svg.line(LEFT, at, WIDTH - RIGHT, at, "limit"),
        svg.text(LEFT + 6, at - 6, f"{formats.size(limit)} on the device", "limit-label"),
    ]


def _series(series: BatchSeries, colour: str, x: Axis, y: Axis, quantity: _Quantity) -> list[Markup]:
    parts = []
    curve = [(one.micro_batch_size, value) for one in series.curve if (value := quantity.of(one))]
    if len(curve) > 1:
        above = [(x.px(size), y.px(value.high)) for size, value in curve]
        below = [(x.px(size), y.px(value.low)) for size, value in reversed(curve)]
        parts.append(svg.polygon([*above, *below], f"band {colour}"))
        parts.append(
            svg.polyline([(x.px(size), y.px(value.expected)) for size, value in curve], f"curve {colour}")
        )
    known = [(one, value) for one in series.measured if (value := quantity.of(one))]
    if not curve:
        ends = [(x.px(one.micro_batch_size), y.px(value.expected)) for one, value in known]
        parts.append(svg.polyline(ends, f"through {colour}"))
    for one, value in known:
        at = x.px(one.micro_batch_size)
        parts.append(svg.line(at, y.px(value.low), at, y.px(value.high), f"bar {colour}"))
        parts.append(svg.circle(at, y.px(value.expected), 4, f"trial-point {colour}", one.title))
    return parts


def _end_labels(series: Sequence[BatchSeries], x: Axis, y: Axis, quantity: _Quantity) -> list[Markup]:
    """Each series' name at its end, pushed apart where two would overlap."""
    ends = []
    for one in series:
        last = one.measured[-1]
        value = quantity.of(last)
        if value is not None:
            ends.append((y.px(value.expected), x.px(last.micro_batch_size), one.name, _colour(one)))
    parts = []
    floor = TOP + 4.0
    for at_y, at_x, name, colour in sorted(ends):
        label_y = max(at_y, floor)
        floor = label_y + LABEL_STEP
        parts.append(svg.polyline([(at_x + 6, at_y), (WIDTH - RIGHT + 4, label_y)], f"leader {colour}"))
        parts.append(svg.text(WIDTH - RIGHT + 8, label_y + 4, name, f"label {colour}"))
    return parts


def _colour(series: BatchSeries) -> str:
    """A class of the style sheet; what is beyond its colours shares the last, which is grey."""
    return f"series-{min(series.colour, COLOURS - 1)}"


def _description(panel: Panel, quantity: _Quantity) -> str:
    """The same numbers in words."""
    texts = []
    for one in panel.series:
        values = [
            f"{quantity.show(value.expected)} at {point.micro_batch_size}"
            for point in one.measured
            if (value := quantity.of(point)) is not None
        ]
        texts.append(f"{one.name}: {', '.join(values)}.")
    return f"{quantity.axis}. {' '.join(texts)}"
