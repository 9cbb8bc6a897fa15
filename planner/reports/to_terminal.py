"""The report in a terminal: reads well in 100 columns and without colour."""

from __future__ import annotations

from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

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

PLANS_SHOWN = 8
TRIALS_SHOWN = 12
TIE = "\N{ALMOST EQUAL TO}"
EXCLUSIONS_SHOWN = 12


def render(report: Report, width: int = 100, *, is_coloured: bool = False) -> str:
    """The answer first, what it rests on after it.

    Args:
        report: what is shown.
        width: of the terminal, in columns; below 80 tables are cut.
        is_coloured: with the terminal's escape codes; nothing is said by colour alone.
    """
    console = Console(
        width=width, file=StringIO(), highlight=False, force_terminal=is_coloured, no_color=not is_coloured
    )
    with console.capture() as capture:
        _print(report, console)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _print(report: Report, console: Console) -> None:
    answer = report.recommendation
    console.print()
    _print_warning(first_warning(report), console)
    console.print(Text(words.headline(answer), style="bold"))
    if answer.winner is not None:
        console.print(Text(labels.place(answer.winner)))
    console.print()
    for warning in warnings(report):
        _print_warning(warning, console)
    if answer.winner is not None:
        _print_answer(report, answer.winner, console)
    for text in (explanation(answer), ways_to_rent(answer), time_value(answer)):
        _print_paragraph(text, console)
    _print_firmness(report, console)
    _print_batch(report, console)
    _print_paragraph(" ".join(binding_lines(report)), console)
    _print_paragraph(" ".join(guard_lines(report)), console)
    if answer.plans:
        console.print(_plan_table(report))
        console.print(Text(_plans_note(report), style="dim"))
        console.print()
    if answer.best is not None:
        _print_bill(report, answer.best, console)
    if report.trials:
        console.print(_trial_table(report))
        _print_more(len(report.trials) - TRIALS_SHOWN, "trials", console)
    _print_rest(report, console)


def _print_warning(warning: str, console: Console) -> None:
    if warning:
        console.print(_hanging(Text("!", style="bold yellow"), Text(warning)))
        console.print()


def _print_answer(report: Report, plan: Plan, console: Console) -> None:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in words.facts(report, plan):
        facts.add_row(Text(name), Text(text))
    console.print(facts)
    console.print()


def _print_paragraph(text: str, console: Console) -> None:
    if text:
        console.print(Text(text))
        console.print()


def _print_firmness(report: Report, console: Console) -> None:
    lines = sensitivity_lines(report.recommendation)
    if lines:
        console.print(Text("Would another plan win? (! yes)", style="bold"))
        for one in lines:
            mark = Text("!", style="bold yellow") if one.is_flipped else Text("-", style="dim")
            console.print(_hanging(mark, Text(one.text)))
        console.print()
    if next_steps(report):
        console.print(Text("What would settle it", style="bold"))
        for text in next_steps(report):
            console.print(_hanging(Text("-", style="dim"), Text(text)))
        console.print()


def _print_batch(report: Report, console: Console) -> None:
    if not batch_lines(report):
        return
    table = _table(BATCH_TITLE)
    for name in batch_head(report):
        is_wrapped = name == "devices"
        table.add_column(name, no_wrap=not is_wrapped, overflow="fold" if is_wrapped else "ellipsis")
    for row in batch_rows(report):
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    console.print()
    _print_paragraph(" ".join(batch_lines(report)), console)


def _plan_table(report: Report) -> Table:
    answer = report.recommendation
    plans = shown_plans(answer, PLANS_SHOWN)
    has_limits = not all(one.is_within_limits for one in plans)
    table = _table(f"{words.best_of_each(answer)} of each device type and count")
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("device", min_width=12, overflow="fold")
    table.add_column("offer", min_width=13, overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    table.add_column(formats.percent(answer.confidence), no_wrap=True)
    table.add_column("speed is", min_width=9, no_wrap=not has_limits)
    if has_limits:
        table.add_column("limits", min_width=8)  # "over deadline" in two lines
    for plan in plans:
        is_best = answer.best is not None and plan.rank == answer.best.rank
        cells = (
            f"{TIE} {plan.rank}" if plan.is_tied_with_best else str(plan.rank),
            *labels.device_parts(plan),
            labels.offer(plan),
            formats.duration(plan.duration_s.expected),
            "\n+ ".join((formats.usd(plan.cost_usd.expected), *labels.waiting(plan, answer.target))),
            formats.span(plan.cost_usd, formats.usd),
            labels.basis(plan),
            *((labels.fit(plan),) if has_limits else ()),
        )
        table.add_row(*(Text(one) for one in cells), style="bold" if is_best else "")
    return table


def _plans_note(report: Report) -> str:
    answer = report.recommendation
    hour_usd = answer.target.hour_value_usd
    waiting = f" Below it the waiting, at {formats.usd_limit(hour_usd)} an hour." if hour_usd else ""
    is_tied = any(one.is_tied_with_best for one in shown_plans(answer, PLANS_SHOWN))
    return (
        f"{formats.counted(len(answer.plans), 'plan')} in all. Cost is all that the run "
        f"will cost; limits are held against the high ends.{waiting}"
        + (f" {TIE} cannot be told apart from the best plan in cost." if is_tied else "")
    )


def _print_bill(report: Report, plan: Plan, console: Console) -> None:
    table = _table("What the cost is made of")
    table.add_column("term", no_wrap=True)
    table.add_column("expected", justify="right", no_wrap=True)
    table.add_column(formats.percent(report.recommendation.confidence), no_wrap=True)
    table.add_column("how", overflow="fold")
    rows, total = bill_rows(plan)
    for row in (*rows, total):
        cells = (Text(one) for one in (row.name, row.amount, row.interval, row.formula))
        table.add_row(*cells, style="bold" if row is total else "")
    console.print(table)
    if not_counted(plan):
        console.print(Text(not_counted(plan), style="dim"))
    console.print()


def _trial_table(report: Report) -> Table:
    table = _table(f"Trials ({len(report.trials)} in all, the latest last)")
    table.add_column("#", justify="right")
    table.add_column("device", no_wrap=True)
    table.add_column("batch", no_wrap=True)
    table.add_column("technique")
    table.add_column("throughput", justify="right", no_wrap=True)
    table.add_column("peak memory", justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for record in report.trials[-TRIALS_SHOWN:]:
        table.add_row(*(Text(cell) for cell in trial_cells(report, record)))
    return table


def _print_rest(report: Report, console: Console) -> None:
    if report.exclusions:
        console.print(Text("Not tried", style="bold"))
        for one in report.exclusions[:EXCLUSIONS_SHOWN]:
            console.print(_hanging(Text("-"), Text(f"{one.knob}: {one.reason}")))
        _print_more(len(report.exclusions) - EXCLUSIONS_SHOWN, "knobs", console)
        console.print()
    for line in (*provenance.sweep_lines(report), *provenance.small_print(report)):
        console.print(Text(line, style="dim"))


def _print_more(count: int, what: str, console: Console) -> None:
    if count > 0:
        console.print(Text(f"{count} more {what} in report.html and report.json", style="dim"))
        console.print()


def _table(title: str) -> Table:
    return Table(
        title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
        show_edge=False, padding=(0, 1), header_style="dim",
    )  # fmt: skip


def _hanging(*cells: Text) -> Table:
    grid = Table.grid(padding=(0, 1))
    for _ in cells:
        grid.add_column()
    grid.add_row(*cells)
    return grid
