"""Cost against time: every plan a point, the frontier a line, error bars where a choice is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats, labels
from planner.reports.chart import Axis, Chart, ChartSeries, Key, Limit, Point, Scale, Ticks
from planner.reports.content import Block, Plots, Section, texts
from planner.reports.models import JsonModel, of_answer
from planner.reports.report import Report

SHOWN_UP_TO = 4.0  # times the frontier's highest cost and time; what lies beyond is counted, not drawn
TIME_VALUES_SHOWN = 5
Rank = Annotated[int, BeforeValidator(lambda plan: plan.rank)]


class HourValueJson(JsonModel):
    """The best plan from so many dollars for an hour of waiting, up to the next one's."""

    from_hour_value_usd: float = Field(validation_alias="hour_value_usd")
    best_rank: int = Field(validation_alias=AliasPath("plan", "rank"))


class Data(JsonModel):
    """The plans that no other beats in both cost and time."""

    frontier_ranks: tuple[Rank, ...] = of_answer("frontier")
    best_by_hour_value: tuple[HourValueJson, ...] = of_answer("time_values")


def section(report: Report) -> Section:
    """The plot, and what an hour of waiting must be worth for the faster plans."""
    answer = report.recommendation
    data = Data.model_validate(report)
    if not answer.plans:
        return Section(title="", blocks=(), data=data)
    plans = _within_reach(answer)
    beyond = len(answer.plans) - len(plans)
    note = "Each point is an offer, a number of instances and the best configuration on them." + (
        f" {beyond} dearer or slower plans lie beyond the axes." if beyond else ""
    )
    chart = _chart(answer, plans, note)
    blocks: tuple[Block, ...] = (Plots(title="", charts=(chart,)), *texts(time_value(answer)))
    return Section(title="Cost against time", blocks=blocks, data=data)


def time_value(answer: Recommendation) -> str:
    """Which plan is best by what an hour of waiting is worth; "" where one is cheapest and fastest."""
    values = answer.time_values
    if len(values) <= 1:
        return ""
    first = values[0]

    def at(plan: Plan) -> str:
        cost, time = formats.usd(plan.cost_usd.expected), formats.duration(plan.duration_s.expected)
        return f"{labels.named(plan)} ({cost} in {time})"

    steps = [at(first.plan)]
    steps += [
        f"from {formats.usd_up(one.hour_value_usd)} {at(one.plan)}" for one in values[1:TIME_VALUES_SHOWN]
    ]
    if len(values) > TIME_VALUES_SHOWN:
        steps.append(f"and {len(values) - TIME_VALUES_SHOWN} faster still")
    return f"By what an hour of waiting is worth (--hour-value), the best plan is: {', '.join(steps)}."


def _chart(answer: Recommendation, plans: list[Plan], note: str) -> Chart:
    on_frontier = {one.rank for one in answer.frontier}
    best = answer.best
    others = [one for one in plans if one.rank not in on_frontier and one != best]
    bars = (*answer.frontier, *((best,) if best is not None and best not in answer.frontier else ()))
    target = answer.target
    described = (
        f" The best plan, {labels.devices(best)}, costs {formats.usd(best.cost_usd.expected)} and takes "
        f"{formats.duration(best.duration_s.expected)}."
        if best
        else ""
    )
    return Chart(
        key="cost-time",
        title="Cost of the run against time",
        description=f"{len(plans)} plans by expected time and cost. The frontier has {len(answer.frontier)} "
        f"plans that no other beats in both.{described}",
        x=Axis(
            title="time of the run",
            show=formats.duration,
            scale=Scale.AS_NEEDED,
            ticks=Ticks.TIME,
            limits=_limits(target.deadline_s, formats.duration, "deadline"),
        ),
        y=Axis(
            title="cost of the run",
            show=formats.usd_limit,
            scale=Scale.AS_NEEDED,
            limits=_limits(target.budget_usd, formats.usd_limit, "budget"),
        ),
        series=(
            ChartSeries(points=tuple(_point(one, f"plan-point {one.basis}") for one in others)),
            ChartSeries(points=tuple(_point(one, "") for one in answer.frontier), line="frontier"),
            ChartSeries(points=tuple(_named_point(one, is_best=one == best) for one in bars)),
        ),
        caption=note,
        legend=(
            Key(text="measured", mark="measured"),
            Key(text="interpolated", mark="interpolated"),
            Key(text="predicted", mark="predicted"),
            Key(text="frontier: nothing is both cheaper and faster", stroke="frontier-stroke"),
            Key(text=f"{formats.percent(answer.confidence)} interval", stroke="bar-stroke"),
        ),
        is_wide=True,
    )


def _limits(value: float | None, show: formats.Show, name: str) -> tuple[Limit, ...]:
    return () if value is None else (Limit(value=value, label=f"{name} {show(value)}"),)


def _within_reach(answer: Recommendation) -> list[Plan]:
    cost_usd = max(one.cost_usd.expected for one in answer.frontier) * SHOWN_UP_TO
    time_s = max(one.duration_s.expected for one in answer.frontier) * SHOWN_UP_TO
    return [
        one for one in answer.plans if one.cost_usd.expected <= cost_usd and one.duration_s.expected <= time_s
    ]


def _point(plan: Plan, mark: str) -> Point:
    return Point(x=plan.duration_s.expected, y=plan.cost_usd.expected, title=_title(plan), mark=mark)


def _named_point(plan: Plan, *, is_best: bool) -> Point:
    return Point(
        x=plan.duration_s.expected,
        y=plan.cost_usd.expected,
        x_interval=plan.duration_s,
        y_interval=plan.cost_usd,
        title=_title(plan),
        mark=f"{'best' if is_best else 'frontier'}-point {plan.basis}",
        label=f"{labels.devices(plan)}, {formats.usd(plan.cost_usd.expected)}",
        is_best=is_best,
    )


def _title(plan: Plan) -> str:
    return (
        f"#{plan.rank}: {labels.devices(plan)}, {labels.offer(plan)}: {formats.usd(plan.cost_usd.expected)} "
        f"({formats.interval(plan.cost_usd, formats.usd)}), {formats.duration(plan.duration_s.expected)}, "
        f"{plan.basis}"
    )
