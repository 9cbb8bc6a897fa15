"""A chart as SVG: axes with their ticks, series with bands, bars and points, names that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from planner.reports import axes, svg
from planner.reports.axes import PixelAxis
from planner.reports.chart import Axis, Chart, ChartSeries, Point, Scale, Ticks
from planner.reports.plot_labels import BEST_CHARACTER_WIDTH, CHARACTER_WIDTH, Box, place_labels

WIDE, SMALL = (1080, 470), (520, 300)  # width and height in pixels
LEFT, TOP, BOTTOM = 66, 18, 52
END_NAMES_WIDTH, MARGIN = 132, 24  # right of the axes, with and without names of series
NAME_STEP = 15.0
TICK_WIDTH = 22.0
LIMIT_WITHIN = 1.5  # times the largest value: a limit further out is left out


def draw(chart: Chart) -> Markup:
    """The whole drawing, with title and description."""
    width, height = WIDE if chart.is_wide else SMALL
    is_named = any(one.name for one in chart.series)
    right = width - (END_NAMES_WIDTH if is_named else MARGIN)
    points = [point for one in chart.series for point in one.points]
    x = _pixels(chart.x, [value for one in points for value in _ends(one.x, one.x_interval)], LEFT, right)
    y = _pixels(
        chart.y, [value for one in points for value in _ends(one.y, one.y_interval)], height - BOTTOM, TOP
    )
    marks = [*_grid(chart, x, y, [one.x for one in points], height), *_limits(chart, x, y)]
    for series in chart.series:
        marks += _series(series, x, y)
    marks += _names(chart.series, x, y, right) if is_named else []
    marks += _labels(points, x, y, Box(left=LEFT + 4, top=2, right=width - 4, bottom=height - BOTTOM))
    return svg.figure(width, height, chart.title, chart.description, marks, chart.key)


def _ends(value: float, interval: object) -> tuple[float, ...]:
    low, high = getattr(interval, "low", value), getattr(interval, "high", value)
    return (value, low, high)


def _pixels(axis: Axis, values: Sequence[float], start_px: float, end_px: float) -> PixelAxis:
    known = [one for one in values if math.isfinite(one)]
    top = max(known, default=1.0)
    is_near = axis.scale is Scale.FROM_ZERO  # where all that matters is what is left below the limit
    known += [one.value for one in axis.limits if is_near or one.value <= top * LIMIT_WITHIN]
    if axis.scale is Scale.AS_NEEDED:
        return axes.positive_axis([one for one in known if one > 0], start_px, end_px)
    if axis.scale is Scale.LOG:
        return axes.log_axis(known, start_px, end_px)
    if axis.scale is Scale.FROM_ZERO:
        return PixelAxis(low=0.0, high=max(known) * 1.12, start_px=start_px, end_px=end_px)
    room = (max(known) - min(known)) * 0.06 or abs(top) * 0.06 or 1.0
    return PixelAxis(low=min(known) - room, high=max(known) + room, start_px=start_px, end_px=end_px)


def _tick_values(axis: Axis, pixels: PixelAxis, values: Sequence[float], count: int) -> list[float]:
    if axis.ticks is Ticks.VALUES:
        taken_px, shown = -TICK_WIDTH, []
        for value in sorted(set(values)):
            if pixels.px(value) >= taken_px + TICK_WIDTH:
                taken_px = pixels.px(value)
                shown.append(value)
        return shown
    if axis.ticks is Ticks.TIME:
        return list(axes.time_ticks(pixels))
    if axis.unit != 1.0 and not pixels.is_log:
        scaled = PixelAxis(low=pixels.low / axis.unit, high=pixels.high / axis.unit, start_px=0.0, end_px=1.0)
        return [one * axis.unit for one in axes.ticks(scaled, count)]
    found = list(axes.ticks(pixels, count))
    return [one for one in found if one == int(one)] if axis.ticks is Ticks.WHOLE else found


def _grid(chart: Chart, x: PixelAxis, y: PixelAxis, xs: Sequence[float], height: int) -> list[Markup]:
    parts = []
    bottom = height - BOTTOM
    count = 5 if chart.is_wide else 4
    for value in _tick_values(chart.y, y, (), count):
        parts.append(svg.line(LEFT, y.px(value), x.end_px, y.px(value), "grid"))
        parts.append(svg.text(LEFT - 8, y.px(value) + 4, chart.y.show(value), "tick", "end"))
    for value in _tick_values(chart.x, x, xs, 5):
        if chart.is_wide:
            parts.append(svg.line(x.px(value), TOP, x.px(value), bottom, "grid"))
        parts.append(svg.text(x.px(value), bottom + 19, chart.x.show(value), "tick", "middle"))
    log = " (logarithmic)"
    x_title = chart.x.title + (log if x.is_log and chart.x.scale is Scale.AS_NEEDED else "")
    parts.append(svg.text((LEFT + x.end_px) / 2, height - 8, x_title, "axis", "middle"))
    if chart.is_wide:
        parts.append(
            svg.element(
                "text",
                chart.y.title + (log if y.is_log else ""),
                class_="axis",
                text_anchor="middle",
                transform=f"translate(14 {(TOP + bottom) / 2:.0f}) rotate(-90)",
            )
        )
    return parts


def _limits(chart: Chart, x: PixelAxis, y: PixelAxis) -> list[Markup]:
    parts = []
    for limit in chart.y.limits:
        if y.has(limit.value):
            at = y.px(limit.value)
            parts.append(svg.line(LEFT, at, x.end_px, at, "limit"))
            parts.append(svg.text(LEFT + 8, at - 6, limit.label, "limit-label"))
    for limit in chart.x.limits:
        if x.has(limit.value):
            at = x.px(limit.value)
            parts.append(svg.line(at, TOP, at, y.start_px, "limit"))
            parts.append(svg.text(at - 6, TOP + 12, limit.label, "limit-label", "end"))
    return parts


def _series(series: ChartSeries, x: PixelAxis, y: PixelAxis) -> list[Markup]:
    parts = []
    points = series.points
    if series.has_band and len(points) > 1:
        ends = [(x.px(one.x), one.y_interval) for one in points]
        above = [(at, y.px(one.high)) for at, one in ends if one]
        below = [(at, y.px(one.low)) for at, one in reversed(ends) if one]
        parts.append(svg.polygon([*above, *below], f"band {series.colour}"))
    if series.line and len(points) > 1:
        line = [(x.px(one.x), y.px(one.y)) for one in points]
        parts.append(svg.polyline(line, f"{series.line} {series.colour}".rstrip()))
    for point in points:
        parts += _point(point, series, x, y)
    return parts


def _point(point: Point, series: ChartSeries, x: PixelAxis, y: PixelAxis) -> list[Markup]:
    if not point.mark:
        return []
    at_x, at_y = x.px(point.x), y.px(point.y)
    if point.is_failure:
        return [svg.cross(at_x, at_y, 4.5, point.mark, point.title)]
    parts = []
    bar = f"bar {series.colour}".rstrip()
    if point.x_interval:
        parts.append(svg.line(x.px(point.x_interval.low), at_y, x.px(point.x_interval.high), at_y, bar))
    if point.y_interval:
        parts.append(svg.line(at_x, y.px(point.y_interval.low), at_x, y.px(point.y_interval.high), bar))
    if point.is_best:
        parts.append(svg.circle(at_x, at_y, 10, "best-ring", point.title))
    radius = 5.5 if point.is_best else 4.5 if point.label else 4.0 if series.colour else 3.0
    parts.append(svg.circle(at_x, at_y, radius, f"{point.mark} {series.colour}".rstrip(), point.title))
    return parts


def _names(series: Sequence[ChartSeries], x: PixelAxis, y: PixelAxis, right: float) -> list[Markup]:
    """Each series' name at its end, pushed apart where two would overlap."""
    ends = sorted(
        (y.px(one.points[-1].y), x.px(one.points[-1].x), one.name, one.colour)
        for one in series
        if one.name and one.points
    )
    parts = []
    floor = TOP + 4.0
    for at_y, at_x, name, colour in ends:
        name_y = max(at_y, floor)
        floor = name_y + NAME_STEP
        parts.append(svg.polyline([(at_x + 6, at_y), (right + 4, name_y)], f"leader {colour}"))
        parts.append(svg.text(right + 8, name_y + 4, name, f"label {colour}"))
    return parts


def _labels(points: Sequence[Point], x: PixelAxis, y: PixelAxis, room: Box) -> list[Markup]:
    """Labels beside points, the best first; those that find no room are left out."""
    named = sorted((one for one in points if one.label), key=lambda one: not one.is_best)
    at = [(x.px(one.x), y.px(one.y)) for one in named]
    widths = [len(one.label) * (BEST_CHARACTER_WIDTH if one.is_best else CHARACTER_WIDTH) for one in named]
    return [
        svg.text(spot.left, spot.bottom - 4, one.label, "label best-label" if one.is_best else "label")
        for one, spot in zip(named, place_labels(at, widths, room), strict=True)
        if spot is not None
    ]
