"""The report as Markdown, for pull requests, issues and wikis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from planner.plans.plan import Plan
from planner.reports import formats, labels, provenance, words
from planner.reports.batch_words import BATCH_TITLE, batch_head, batch_lines, batch_rows
from planner.reports.bound_words import binding_lines
from planner.reports.cautions import first_warning, next_steps, warnings
from planner.reports.firmness import sensitivity_lines, time_value
from planner.reports.guard_words import guard_lines
from planner.reports.renting import ways_to_rent
from planner.reports.report import Report
from planner.reports.shown import bill_rows, not_counted, shown_plans, trial_cells
from planner.reports.why import explanation

PLANS_SHOWN = 12
_SPECIAL = re.compile(
    r"[\\`*_{}\[\]<>|#&~]|\$(?!\d)"
)  # before a digit $ is an amount, else it opens a formula


def render(report: Report) -> str:
    """The same content as the other outputs, in GitHub's dialect."""
    answer = report.recommendation
    best = answer.winner
    sections = [
        f"> **Note:** {_text(first_warning(report))}" if first_warning(report) else "",
        f"# {_text(words.headline(answer))}",
        _text(labels.place(best)) if best else "",
        "\n>\n".join(f"> **Note:** {_text(one)}" for one in warnings(report)),
        _table(("", ""), [(_text(name), _text(value)) for name, value in words.facts(report, best)])
        if best
        else "",
        f"## {'Why this one' if best else 'What would have to give'}",
        _text(explanation(answer)),
        _text(ways_to_rent(answer)),
        _text(time_value(answer)),
        *_firmness(report),
        *_batch(report),
        *(("## What the step is bound by", _text(" ".join(binding_lines(report)))) if report.binding else ()),
        *(("## Does it train as fp32 does", _text(" ".join(guard_lines(report)))) if report.guards else ()),
        *(_plans(report) if answer.plans else ()),
        *(_breakdown(best) if best else ()),
        *(_trials(report) if report.trials else ()),
        *(_exclusions(report) if report.exclusions else ()),
        "## Where the numbers come from",
        "\n".join(
            f"- {_text(one)}" for one in (*provenance.sweep_lines(report), *provenance.small_print(report))
        ),
    ]
    return "\n\n".join(one for one in sections if one) + "\n"


def _firmness(report: Report) -> tuple[str, ...]:
    lines = sensitivity_lines(report.recommendation)
    asked = "\n".join(f"- {'**yes**' if one.is_flipped else 'no'}: {_text(one.text)}" for one in lines)
    steps = "\n".join(f"- {_text(one)}" for one in next_steps(report))
    return (
        *(("## Would another plan win?", asked) if lines else ()),
        *(("## What would settle it", steps) if steps else ()),
    )


def _batch(report: Report) -> tuple[str, ...]:
    if not batch_lines(report):
        return ()
    rows = [tuple(_text(cell) for cell in row) for row in batch_rows(report)]
    return (f"## {BATCH_TITLE}", _table(batch_head(report), rows), _text(" ".join(batch_lines(report))))


def _plans(report: Report) -> tuple[str, ...]:
    answer = report.recommendation
    waiting = ("With waiting",) if answer.target.hour_value_usd else ()
    level = formats.percent(answer.confidence)
    head = ("#", "Devices", "Offer", "Time", "Cost", level, *waiting, "Speed is", "Limits")
    rows = [
        (
            str(plan.rank),
            labels.devices(plan),
            f"{plan.offer.instance_type}, {labels.offer(plan)}",
            formats.duration(plan.duration_s.expected),
            formats.usd(plan.cost_usd.expected),
            formats.span(plan.cost_usd, formats.usd),
            *labels.with_waiting(plan, answer.target),
            labels.basis(plan),
            f"{labels.fit(plan)}{', tie' if plan.is_tied_with_best else ''}",
        )
        for plan in shown_plans(answer, PLANS_SHOWN)
    ]
    return ("## Plans", _table(head, [tuple(_text(cell) for cell in row) for row in rows]))


def _breakdown(plan: Plan) -> tuple[str, ...]:
    rows, total = bill_rows(plan)
    cells = [(_text(one.name), one.amount, one.interval, _text(one.formula)) for one in rows]
    return (
        "## What the cost is made of",
        _table(
            ("Term", "Expected", "Interval", "How"),
            [*cells, ("**total**", f"**{total.amount}**", total.interval, "")],
        ),
        _text(not_counted(plan)),
    )


def _trials(report: Report) -> tuple[str, ...]:
    head = ("#", "Device", "Batch", "Technique", "Throughput", "Peak memory", "Outcome")
    rows = [tuple(_text(cell) for cell in trial_cells(report, one)) for one in report.trials]
    return ("## Trials", _table(head, rows))


def _exclusions(report: Report) -> tuple[str, ...]:
    return (
        "## Not tried",
        "\n".join(f"- {_text(one.knob)}: {_text(one.reason)}" for one in report.exclusions),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str) -> str:
    """Plain text: what Markdown or HTML would take for markup is escaped, lines are joined."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))
