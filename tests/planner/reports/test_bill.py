"""The bill adds up, in every form of the report and whatever is rented."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.gpus import GIB
from catalogs.offers import Pricing
from planner.reports import to_html, to_markdown, to_terminal
from planner.reports.report import Report
from planner.reports.sections.bill import bill_rows
from tests.builders import make_assumptions, make_offer, make_target
from tests.planner.reports.documents import document_of
from tests.planner.reports.studies import A100, CPU, L4, make_report

AMOUNT = r"\$([\d,]+(?:\.\d+)?)"
ROWS = {  # how each form writes a term and its expected amount
    "terminal": re.compile(rf"^([a-z][a-z -]+?) +{AMOUNT}(?= |$)", re.MULTILINE),
    "markdown": re.compile(rf"^\| (?:\*\*)?([a-z][a-z -]+?)(?:\*\*)? \| (?:\*\*)?{AMOUNT}", re.MULTILINE),
    "page": re.compile(rf'<th scope="row">([a-z][a-z -]+)</th>\s*<td class="number(?: strong)?">{AMOUNT}'),
}


def shown_in(form: str, text: str) -> dict[str, Decimal]:
    _, _, bill = text.partition("Cost breakdown")
    bill = bill.partition("</table>" if form == "page" else "Not counted" if "Not counted" in bill else "#")[
        0
    ]
    return {name: Decimal(amount.replace(",", "")) for name, amount in ROWS[form].findall(bill)}


def check_every_form(report: Report) -> None:
    best = report.recommendation.best
    assert best is not None
    terms, total = best.breakdown.terms, best.breakdown.total_usd
    for end in ("low", "expected", "high"):
        assert math.fsum(getattr(one, f"{end}_usd") for one in terms) == getattr(total, end)
    assert all(one.formula for one in terms)
    told = document_of(report)
    plan = told["winner"] or told["nearest"]
    assert (
        math.fsum(one["expected_usd"] for one in plan["breakdown"])
        == (plan["total_with_sweep_usd"]["expected"])
    )
    texts = {
        "terminal": to_terminal.render(report),
        "markdown": to_markdown.render(report),
        "page": to_html.render(report),
    }
    for form, text in texts.items():
        shown = shown_in(form, text)
        assert list(shown) == [*(one.name for one in terms), "total"], form
        assert sum(amount for name, amount in shown.items() if name != "total") == shown["total"], form


@given(
    gpu=st.sampled_from([L4.name, A100.name, CPU.name]),
    price=st.floats(0.01, 90),
    increment=st.sampled_from([1, 60, 600, 3600]),
    rate=st.sampled_from([None, 0.0, 0.02, 0.4]),
    is_spot=st.booleans(),
    stated_s=st.floats(0, 7200),
    data_gib=st.sampled_from([None, 40, 9000]),
    hours=st.floats(0.02, 90),
)
@settings(max_examples=25, deadline=None)
def test_terms_add_up_to_the_total_in_every_form(
    *,
    gpu: str,
    price: float,
    increment: int,
    rate: float | None,
    is_spot: bool,
    stated_s: float,
    data_gib: int | None,
    hours: float,
) -> None:
    offer = make_offer(
        gpu,
        price_usd_per_hour=price,
        billing_increment_s=increment,
        pricing=Pricing.SPOT if is_spot else Pricing.ON_DEMAND,
        interruption_rate_per_hour=rate if is_spot else None,
    )
    stated = make_assumptions(
        provisioning_s=stated_s,
        evaluation_s=stated_s / 2,
        data_bytes=None if data_gib is None else data_gib * GIB,
        data_from=None if data_gib is None else "aws/us-east-1",
        storage_usd_per_gib_month=0.023,
    )
    samples = max(32, round(hours * 7200) * 32)  # half a second each on the L4
    target = make_target(samples=samples, budget_usd=100.0)
    check_every_form(make_report([offer], target=target, assumptions=stated))


def test_an_interval_in_the_bill_has_its_lesser_end_first_and_the_digits_of_the_total() -> None:
    """A longer run fills more of its last block: what the block adds is most at the low end."""
    report = make_report([make_offer(price_usd_per_hour=0.1, billing_increment_s=3600)])
    best = report.recommendation.best
    assert best is not None
    rows, total = bill_rows(best)
    ends = [re.findall(AMOUNT, row.interval) for row in (*rows, total) if row.interval]
    assert ends
    assert all(float(low) < float(high) for low, high in ends)
    assert all(len(one.partition(".")[2]) == 4 for pair in ends for one in pair)  # of less than a dollar
