"""What a table has room for: the rows of plans and the cells of trials."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats, labels
from planner.reports.labels import devices
from planner.reports.report import Report, TrialRecord
from trials.trial import Measurement


def shown_plans(answer: Recommendation, count: int) -> tuple[Plan, ...]:
    """The cheapest plan of each device type and number, ``count`` in all, the best one always among them."""
    first: dict[str, Plan] = {}
    for plan in answer.plans:
        first.setdefault(devices(plan), plan)
    if answer.best is not None:
        first[devices(answer.best)] = answer.best
    in_order = sorted(first.values(), key=lambda one: one.rank)
    shown = in_order[:count]
    if answer.best is not None and answer.best not in shown:
        shown = [*shown[:-1], answer.best]
    return tuple(shown)


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


def trial_cells(report: Report, record: TrialRecord) -> tuple[str, ...]:
    """A trial's row of a table: number, device, batch, technique, throughput, peak memory, outcome."""
    outcome = record.outcome
    throughput, peak = "", ""
    if isinstance(outcome, Measurement):
        throughput = formats.rate(outcome.throughput_per_s, report.profile.tokens_per_sample)
        peak = formats.size(outcome.peak_memory_bytes)
    return (
        str(record.number),
        formats.times(outcome.config.gpu_count, outcome.config.gpu),
        labels.split(outcome.config),
        labels.technique(outcome.config),
        throughput,
        peak,
        labels.outcome(outcome),
    )
