"""Two loss curves over the same steps: a configuration and its reference in fp32."""

from __future__ import annotations

from markupsafe import Markup

from planner.plans.numerics_check import Guard
from planner.reports import formats, svg
from planner.reports.axes import Axis, ticks
from planner.reports.guard_words import guard_line
from planner.reports.labels import technique

WIDTH, HEIGHT = 520, 260
LEFT, RIGHT, TOP, BOTTOM = 62, 132, 14, 46
LABEL_STEP = 16.0


def loss_plot(guard: Guard, key: str) -> Markup:
    """The reference's curve, and the configuration's as far as it was finite."""
    curves = [
        (losses, technique(config), colour)
        for losses, config, colour in (
            (guard.reference_losses, guard.reference, "series-0"),
            (guard.losses, guard.config, "series-1"),
        )
        if losses
    ]
    values = [loss for losses, _, _ in curves for loss in losses]
    room = (max(values) - min(values)) * 0.06 or abs(max(values)) * 0.06 or 1.0
    last = max(2, *(len(losses) for losses, _, _ in curves))
    x = Axis(low=1.0, high=last, start_px=LEFT, end_px=WIDTH - RIGHT)
    y = Axis(low=min(values) - room, high=max(values) + room, start_px=HEIGHT - BOTTOM, end_px=TOP)
    marks = _grid(x, y)
    label_y = _apart([y.px(losses[-1]) for losses, _, _ in curves])
    for (losses, name, colour), at in zip(curves, label_y, strict=True):
        points = [(x.px(step), y.px(loss)) for step, loss in enumerate(losses, start=1)]
        marks.append(svg.polyline(points, f"curve {colour}"))
        marks.append(svg.text(WIDTH - RIGHT + 8, at + 4, name, f"label {colour}"))
    title = f"Loss of {technique(guard.config)} beside {technique(guard.reference)}"
    return svg.figure(WIDTH, HEIGHT, title, guard_line(guard), marks, key)


def _grid(x: Axis, y: Axis) -> list[Markup]:
    parts = []
    for value in ticks(y, 4):
        parts.append(svg.line(LEFT, y.px(value), WIDTH - RIGHT, y.px(value), "grid"))
        parts.append(svg.text(LEFT - 8, y.px(value) + 4, formats.significant(value, 3), "tick", "end"))
    parts += [
        svg.text(x.px(value), HEIGHT - BOTTOM + 18, str(int(value)), "tick", "middle")
        for value in ticks(x, 5)
        if value == int(value)
    ]
    parts.append(svg.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "optimizer step", "axis", "middle"))
    return parts


def _apart(at: list[float]) -> list[float]:
    """One or two labels, pushed apart where they would overlap."""
    if len(at) == 1 or abs(at[0] - at[1]) >= LABEL_STEP:
        return at
    middle, half = sum(at) / 2, LABEL_STEP / 2
    return [middle + half, middle - half] if at[0] > at[1] else [middle - half, middle + half]
