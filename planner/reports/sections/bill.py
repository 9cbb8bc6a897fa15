"""What the cost is made of: a row for each term, with its formula and source."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plans.plan import Plan
from planner.reports import formats
from planner.reports.content import Cell, Column, Row, Section, Table, texts
from planner.reports.report import Report


def section(report: Report) -> Section:
    """The bill of the best plan."""
    answer = report.recommendation
    if answer.best is None:
        return Section(title="", blocks=())
    rows, total = bill_rows(answer.best)
    table = Table(
        label="cost breakdown",
        columns=(
            Column(name="term"),
            Column(name="expected", is_number=True),
            Column(name=formats.percent(answer.confidence)),
            Column(name="how", wrap_to=24, drop=1),
        ),
        rows=tuple(_row(one) for one in rows),
        total=_row(total),
    )
    return Section(title="Cost breakdown", blocks=(table, *texts(not_counted(answer.best), is_note=True)))


def _row(one: BillRow) -> Row:
    cells = (one.name, one.amount, one.interval, one.formula)
    return Row(cells=tuple(Cell(text=text) for text in cells))


@dataclass(frozen=True, slots=True, kw_only=True)
class BillRow:
    """A term of the bill as a table has it."""

    name: str
    amount: str
    interval: str
    formula: str


def bill_rows(plan: Plan) -> tuple[tuple[BillRow, ...], BillRow]:
    """Terms whose shown amounts add up to the shown total, and that total.

    What started blocks add is most where the run is shortest: an interval has its lesser end first, whichever
    end of the run's it belongs to, and is left out where it is no wider than what is shown.
    """
    total = plan.breakdown.total_usd

    def between(one_end_usd: float, other_end_usd: float) -> str:
        low, high = (formats.usd_part(one, total.expected) for one in sorted((one_end_usd, other_end_usd)))
        return "" if low == high else f"{low} to {high}"

    terms = plan.breakdown.terms
    amounts = formats.usd_terms([one.expected_usd for one in terms], total.expected)
    rows = tuple(
        BillRow(
            name=term.name,
            amount=amount,
            interval=between(term.low_usd, term.high_usd),
            formula=term.formula,
        )
        for term, amount in zip(terms, amounts, strict=True)
    )
    return rows, BillRow(
        name="total",
        amount=formats.usd_part(total.expected, total.expected),
        interval=between(total.low, total.high),
        formula="",
    )


def not_counted(plan: Plan) -> str:
    """What the total leaves out; "" where nothing is."""
    left_out = plan.bill.not_counted
    return f"Not counted: {'; '.join(left_out)}." if left_out else ""
