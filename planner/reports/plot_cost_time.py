"""Cost against time: every plan a point, the frontier a line, error bars where a choice is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats, labels, svg
from planner.reports.axes import Axis, positive_axis, ticks, time_ticks
from planner.reports.plot_labels import Box, place_labels

WIDTH, HEIGHT = 1080, 470
LEFT, RIGHT, TOP, BOTTOM = 66, 24, 18, 52
SHOWN_UP_TO = 4.0  # times the frontier's highest cost and time; what lies beyond is counted, not drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTimePlot:
    """The image, and how many plans lie beyond its axes."""

    image: Markup
    beyond_count: int


def cost_time_plot(answer: Recommendation) -> CostTimePlot:
    """All plans of a recommendation that has some."""
    plans = _within_reach(answer)
    x, y = _axes(answer, plans)
    on_frontier = {one.rank for one in answer.frontier}
    marks = [
        *_grid(x, y),
        *_limits(answer, x, y),
        *(_point(one, x, y) for one in plans if one.rank not in on_frontier),
        svg.polyline([_at(one, x, y) for one in answer.frontier], "frontier"),
        *(part for one in _with_bars(answer) for part in _bars(one, x, y)),
        *(_point(one, x, y, on="frontier-point") for one in answer.frontier),
        *_best(answer, x, y),
        *_labels(answer, x, y),
    ]
    best = answer.best
    description = (
        f"{len(plans)} plans by expected time and cost. The frontier has {len(answer.frontier)} plans that "
        "no other beats in both."
        + (
            f" The best plan, {labels.devices(best)}, costs {formats.usd(best.cost_usd.expected)} and takes "
            f"{formats.duration(best.duration_s.expected)}."
            if best
            else ""
        )
    )
    image = svg.figure(WIDTH, HEIGHT, "Cost of the run against time", description, marks, "cost-time")
    return CostTimePlot(image=image, beyond_count=len(answer.plans) - len(plans))


def _within_reach(answer: Recommendation) -> list[Plan]:
    cost_usd = max(one.cost_usd.expected for one in answer.frontier) * SHOWN_UP_TO
    time_s = max(one.duration_s.expected for one in answer.frontier) * SHOWN_UP_TO
    return [
        one for one in answer.plans if one.cost_usd.expected <= cost_usd and one.duration_s.expected <= time_s
    ]


def _axes(answer: Recommendation, plans: Sequence[Plan]) -> tuple[Axis, Axis]:
    times_s = [one.duration_s.expected for one in plans]
    costs_usd = [one.cost_usd.expected for one in plans]
    for one in _with_bars(answer):
        times_s += [one.duration_s.low, one.duration_s.high]
        costs_usd += [one.cost_usd.low, one.cost_usd.high]
    for limit, known in ((answer.target.deadline_s, times_s), (answer.target.budget_usd, costs_usd)):
        if limit is not None and limit <= max(known) * 1.5:
            known.append(limit)
    x = positive_axis([one for one in times_s if one > 0], LEFT, WIDTH - RIGHT)
    y = positive_axis([one for one in costs_usd if one > 0], HEIGHT - BOTTOM, TOP)
    return x, y


def _grid(x: Axis, y: Axis) -> list[Markup]:
    parts = []
    for value in ticks(y):
        parts.append(svg.line(LEFT, y.px(value), WIDTH - RIGHT, y.px(value), "grid"))
        parts.append(svg.text(LEFT - 10, y.px(value) + 4, formats.usd_limit(value), "tick", "end"))
    for value in time_ticks(x):
        parts.append(svg.line(x.px(value), TOP, x.px(value), HEIGHT - BOTTOM, "grid"))
        parts.append(svg.text(x.px(value), HEIGHT - BOTTOM + 20, formats.duration(value), "tick", "middle"))
    scales = " (logarithmic)" if x.is_log else ""
    parts.append(
        svg.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, f"time of the run{scales}", "axis", "middle")
    )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        svg.element(
            "text",
            f"cost of the run{' (logarithmic)' if y.is_log else ''}",
            class_="axis",
            text_anchor="middle",
            transform=f"translate(14 {middle:.0f}) rotate(-90)",
        )
    )
    return parts


def _limits(answer: Recommendation, x: Axis, y: Axis) -> list[Markup]:
    parts = []
    budget_usd, deadline_s = answer.target.budget_usd, answer.target.deadline_s
    if budget_usd is not None and y.has(budget_usd):
        at = y.px(budget_usd)
        parts.append(svg.line(LEFT, at, WIDTH - RIGHT, at, "limit"))
        parts.append(svg.text(LEFT + 8, at - 6, f"budget {formats.usd_limit(budget_usd)}", "limit-label"))
    if deadline_s is not None and x.has(deadline_s):
        at = x.px(deadline_s)
        parts.append(svg.line(at, TOP, at, HEIGHT - BOTTOM, "limit"))
        parts.append(
            svg.text(at - 6, TOP + 12, f"deadline {formats.duration(deadline_s)}", "limit-label", "end")
        )
    return parts


def _with_bars(answer: Recommendation) -> tuple[Plan, ...]:
    best = (answer.best,) if answer.best is not None and answer.best not in answer.frontier else ()
    return (*answer.frontier, *best)


def _bars(plan: Plan, x: Axis, y: Axis) -> tuple[Markup, Markup]:
    at_x, at_y = _at(plan, x, y)
    return (
        svg.line(x.px(plan.duration_s.low), at_y, x.px(plan.duration_s.high), at_y, "bar"),
        svg.line(at_x, y.px(plan.cost_usd.low), at_x, y.px(plan.cost_usd.high), "bar"),
    )


def _point(plan: Plan, x: Axis, y: Axis, on: str = "plan-point") -> Markup:
    radius = 3.0 if on == "plan-point" else 4.5
    return svg.circle(*_at(plan, x, y), radius, f"{on} {plan.basis}", _title(plan))


def _best(answer: Recommendation, x: Axis, y: Axis) -> list[Markup]:
    if answer.best is None:
        return []
    at = _at(answer.best, x, y)
    return [
        svg.circle(*at, 10, "best-ring", _title(answer.best)),
        svg.circle(*at, 5.5, f"best-point {answer.best.basis}", _title(answer.best)),
    ]


def _labels(answer: Recommendation, x: Axis, y: Axis) -> list[Markup]:
    """Names beside the frontier's points, the best first."""
    named = sorted(_with_bars(answer), key=lambda one: (one != answer.best, one.rank))
    points = [_at(one, x, y) for one in named]
    room = Box(left=LEFT + 4, top=2, right=WIDTH - 4, bottom=HEIGHT - BOTTOM)
    names = [f"{labels.devices(one)}, {formats.usd(one.cost_usd.expected)}" for one in named]
    return [
        svg.text(spot.left, spot.bottom - 4, name, "label best-label" if one == answer.best else "label")
        for one, name, spot in zip(named, names, place_labels(points, names, room), strict=True)
        if spot is not None
    ]


def _at(plan: Plan, x: Axis, y: Axis) -> tuple[float, float]:
    return x.px(plan.duration_s.expected), y.px(plan.cost_usd.expected)


def _title(plan: Plan) -> str:
    return (
        f"#{plan.rank}: {labels.devices(plan)}, {labels.offer(plan)}: {formats.usd(plan.cost_usd.expected)} "
        f"({formats.interval(plan.cost_usd, formats.usd)}), {formats.duration(plan.duration_s.expected)}, "
        f"{plan.basis}"
    )
