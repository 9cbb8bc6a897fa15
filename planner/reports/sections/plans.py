"""The best plan of each device type and count, in a table; every plan in the JSON."""

from __future__ import annotations

from datetime import date

from planner.filters import Filters
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats, labels
from planner.reports.choices import choices, price_age
from planner.reports.content import Cell, Column, Paragraph, Row, Section, Table
from planner.reports.models import JsonModel, LeastMemoryJson, LeftOutJson, PlanRowJson
from planner.reports.report import Report
from planner.reports.sections.frontier import TIME_VALUES_SHOWN

PLANS_SHOWN, SHORT = 20, 8


class FiltersJson(JsonModel):
    """What may be rented; empty lists let everything through."""

    providers: tuple[str, ...]
    regions: tuple[str, ...]
    devices: tuple[str, ...]
    is_spot: bool | None


class StalePricesJson(JsonModel):
    """Offers whose prices are older than such prices keep: 30 days, on spot one."""

    on_demand_count: int
    spot_count: int
    oldest: date


class Data(JsonModel):
    """Every plan, and the offers that carry none."""

    filters: FiltersJson
    offer_count: int
    """In the catalog."""
    set_aside: tuple[LeftOutJson, ...]
    least_memory: LeastMemoryJson | None
    stale_prices: StalePricesJson | None
    plans: tuple[PlanRowJson, ...]


def section(report: Report) -> Section:
    """The table, and how to read it."""
    answer = report.recommendation
    if not answer.plans:
        return Section(title="", blocks=(), data=_data(answer))
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
        title="Plans", blocks=(Paragraph(text=note, is_note=True), _table(report, plans)), data=_data(answer)
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


def _data(answer: Recommendation) -> Data:
    return Data(
        filters=_filters(answer.filters),
        offer_count=answer.offer_count,
        set_aside=tuple(LeftOutJson.model_validate(one) for one in answer.set_aside),
        least_memory=LeastMemoryJson.model_validate(answer.least_memory) if answer.least_memory else None,
        stale_prices=StalePricesJson.model_validate(answer.stale_prices) if answer.stale_prices else None,
        plans=tuple(PlanRowJson.model_validate(one) for one in answer.plans),
    )


def _filters(filters: Filters) -> FiltersJson:
    return FiltersJson(
        providers=tuple(sorted(filters.providers)),
        regions=tuple(sorted(filters.regions)),
        devices=tuple(sorted(filters.gpus)),
        is_spot=filters.is_spot,
    )
