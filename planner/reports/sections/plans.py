"""The best plan of each device type and count, in a table; every plan in the JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation, StalePrices
from planner.reports import formats, labels
from planner.reports.choices import choices, price_age
from planner.reports.content import Cell, Column, Paragraph, Row, Section, Table
from planner.reports.models import JsonModel, LeastMemoryJson, LeftOutJson, PlanRowJson, of_answer
from planner.reports.report import Report
from planner.reports.sections.frontier import TIME_VALUES_SHOWN

PLANS_SHOWN, SHORT = 20, 8
Sorted = Annotated[tuple[str, ...], BeforeValidator(lambda names: tuple(sorted(names)))]


class FiltersJson(JsonModel):
    """What may be rented; empty lists let everything through."""

    providers: Sorted
    regions: Sorted
    devices: Sorted = Field(validation_alias="gpus")
    is_spot: bool | None


class Data(JsonModel):
    """Every plan, and the offers that carry none."""

    filters: FiltersJson = of_answer("filters")
    offer_count: int = of_answer("offer_count")
    """In the catalog."""
    set_aside: tuple[LeftOutJson, ...] = of_answer("set_aside")
    least_memory: LeastMemoryJson | None = of_answer("least_memory")
    stale_prices: StalePrices | None = of_answer("stale_prices")
    plans: tuple[PlanRowJson, ...] = of_answer("plans")


def section(report: Report) -> Section:
    """The table, and how to read it."""
    answer = report.recommendation
    data = Data.model_validate(report)
    if not answer.plans:
        return Section(title="", blocks=(), data=data)
    plans = shown_plans(answer)
    best_of = "The best plan" if answer.target.hour_value_usd else "The cheapest plan"
    note = (
        f"{best_of} of each device type and count, {len(plans)} of "
        f"{formats.counted(len(answer.plans), 'plan')}; report.json has all. "
        "Cost is all that the run will cost; limits are held against the high ends."
    )
    if any(one.is_tied_with_best for one in plans):
        note += " A tie cannot be told apart from the best plan in cost."
    return Section(
        title="Plans", blocks=(Paragraph(text=note, is_note=True), _table(report, plans)), data=data
    )


def shown_plans(answer: Recommendation, count: int = PLANS_SHOWN) -> tuple[Plan, ...]:
    """The cheapest plan of each device type and number, ``count`` in all, with those that the words name."""
    first: dict[str, Plan] = {}
    for plan in answer.plans:
        first.setdefault(labels.devices(plan), plan)
    by_hour_value = [one.plan for one in answer.time_values[:TIME_VALUES_SHOWN]]
    named = {plan.rank: plan for plan in (*(one.plan for one in choices(answer)), *by_hour_value)}
    own = [one for one in first.values() if one.rank not in named]
    own.sort(key=lambda one: one.rank)
    return tuple(sorted([*named.values(), *own[: count - len(named)]], key=lambda one: one.rank))


def _table(report: Report, plans: tuple[Plan, ...]) -> Table:
    answer = report.recommendation
    has_waiting = answer.target.hour_value_usd is not None
    columns = (
        Column(name="rank", is_number=True),
        Column(name="devices", wrap_to=12),
        Column(name="offer", wrap_to=13),
        Column(name="instance", drop=5, is_under=True),
        Column(name="price", drop=6, is_under=True),
        Column(name="time", is_number=True),
        Column(name="cost", is_number=True),
        Column(name=formats.percent(answer.confidence), drop=1),
        *((Column(name="with waiting", is_number=True, drop=2),) if has_waiting else ()),
        Column(name="basis", wrap_to=9),
        Column(name="limits", wrap_to=8),
        Column(name="configuration", drop=7),
        Column(name="batch", drop=8, is_under=True),
        Column(name="memory free", drop=9, is_under=True),
    )
    rows = tuple(_row(report, plan, has_waiting=has_waiting) for plan in plans)
    return Table(label="plans", columns=columns, rows=rows, short_count=SHORT, is_sortable=True)


def _row(report: Report, plan: Plan, *, has_waiting: bool) -> Row:
    best = report.recommendation.best
    cost, age = plan.cost_usd, price_age(plan, report.generated_at.date())
    price = formats.usd_per_hour(plan.price_usd_per_hour)
    waiting = Cell(text=formats.usd(plan.weighed_usd.expected), value=plan.weighed_usd.expected)
    cells = (
        Cell(text=str(plan.rank), value=plan.rank),
        Cell(text=labels.devices(plan)),
        Cell(text=labels.offer(plan)),
        Cell(text=plan.offer.instance_type),
        Cell(text=f"{price}, {age}" if age else price),
        Cell(text=formats.duration(plan.duration_s.expected), value=plan.duration_s.expected),
        Cell(text=formats.usd(cost.expected), value=cost.expected, is_strong=True),
        Cell(text=formats.span(cost, formats.usd), value=cost.high, interval=cost),
        *((waiting,) if has_waiting else ()),
        Cell(text=labels.basis(plan), basis=plan.basis),
        Cell(text=f"{labels.fit(plan)}{', tie' if plan.is_tied_with_best else ''}"),
        Cell(text=labels.technique(plan.config)),
        Cell(text=labels.split(plan.config)),
        Cell(text=f"{formats.percent(plan.memory_headroom_fraction)} free"),
    )
    return Row(cells=cells, is_best=best is not None and plan.rank == best.rank)
