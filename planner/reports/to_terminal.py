"""The report in a terminal: tables fit its width by leaving columns out; a pipe gets every column, uncut."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from planner.reports.content import (
    Block,
    Cards,
    Caution,
    Column,
    Fields,
    Headline,
    Items,
    Paragraph,
    Plots,
    Row,
    Section,
    Table,
)
from planner.reports.report import Report
from planner.reports.sections import sections_of

TEXT_WIDTH = 100  # longer lines are hard to read
_UNLIMITED = 10_000
_GAP = 2  # spaces between columns
_WORD_MAX = 16  # a longer word is broken where a column is narrow


def render(
    report: Report, width: int | None = None, *, is_coloured: bool = False, is_head: bool = False
) -> str:
    """The answer first, what it rests on after it.

    Args:
        report: what is shown.
        width: of the terminal, in columns; None in a pipe or a file, where tables are as wide as they are.
        is_coloured: with the terminal's escape codes; nothing is said by colour alone.
        is_head: the first section alone.
    """
    return render_sections(sections_of(report)[: 1 if is_head else None], width, is_coloured=is_coloured)


def width_of(stream: TextIO) -> int | None:
    """Columns of the terminal that ``stream`` is, or of COLUMNS; None for a pipe or a file."""
    has_width = stream.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if has_width else None


def render_sections(sections: Sequence[Section], width: int | None, *, is_coloured: bool = False) -> str:
    """Some sections, as `render` shows them."""
    console = Console(
        width=width or _UNLIMITED, file=StringIO(), highlight=False, force_terminal=is_coloured,
        no_color=not is_coloured,
    )  # fmt: skip
    with console.capture() as capture:
        console.print()
        for section in sections:
            _print_section(section, console)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _print_section(section: Section, console: Console) -> None:
    blocks = [one for one in section.blocks if not isinstance(one, Plots)]
    if not blocks:
        return
    if section.title:
        console.print(Text(section.title, style="bold"))
    for block in blocks:
        _print_block(block, console)
        if not (isinstance(block, Paragraph) and block.is_note and block is not blocks[-1]):
            console.print()


def _print_block(block: Block, console: Console) -> None:
    if isinstance(block, Table):
        _print_table(block, console)
    for text in _prose(block):
        console.print(text, width=min(console.width, TEXT_WIDTH))


def _prose(block: Block) -> Iterator[RenderableType]:
    """A block's texts, which are wrapped where lines would be hard to read."""
    match block:
        case Headline():
            yield Text(block.text, style="bold")
            if block.lede:
                yield Text(block.lede)
        case Caution():
            yield _hanging("!", block.text, "bold yellow")
        case Paragraph():
            yield Text(block.text, style="dim" if block.is_note else "")
        case Cards():
            yield from _cards(block)
        case Fields():
            yield _pairs([(one.name, one.text) for one in block.rows])
        case Items():
            marks = {None: "-", True: "! yes:", False: "- no:"}
            for one in block.rows:
                yield _hanging(marks[one.is_yes], one.text, "bold yellow" if one.is_yes else "dim")
        case Table() | Plots():
            pass


def _cards(block: Cards) -> Iterator[RenderableType]:
    for card in block.cards:
        if card is not block.cards[0]:
            yield ""
        yield Text(f"{card.title}: {card.name}", style="bold")
        figures = [(one.name, f"{one.text} ({one.note})") for one in card.figures]
        yield _pairs([("rent", card.place), *figures, ("basis", card.basis_text), ("main risk", card.risk)])


def _print_table(table: Table, console: Console) -> None:
    is_short = console.width < _UNLIMITED and table.short_count is not None
    rows = table.rows
    if is_short:
        rows = rows[-(table.short_count or 0) :] if table.is_latest_last else rows[: table.short_count]
        rows = (*rows, *(one for one in table.rows if one.is_best and one not in rows))
    every = [*rows, *([table.total] if table.total else [])]
    shown = _fitting(table.columns, every, console.width)
    grid = RichTable(
        box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False, header_style="dim"
    )
    is_tight = _narrowest(table.columns, every, shown) > console.width
    for index in shown:
        column = table.columns[index]
        is_wrapped = is_tight or bool(column.wrap_to)
        grid.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            no_wrap=not is_wrapped,
            overflow="fold" if is_wrapped else "ellipsis",
            min_width=None if is_tight else _least_width(column, every, index),
        )
    for row in every:
        style = "bold" if row.is_best or row is table.total else ""
        grid.add_row(*(Text(row.cells[index].text) for index in shown), style=style)
    console.print(grid)
    left_out = len(table.rows) - len(rows)
    if left_out > 0:
        console.print(Text(f"{left_out} more in report.html and report.json", style="dim"))


def _fitting(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    """Columns that fit beside each other: those that matter least are left out, one after the other."""
    shown = list(range(len(columns)))
    while _narrowest(columns, rows, shown) > width:
        least = max(shown, key=lambda index: columns[index].drop)
        if not columns[least].drop:
            break
        shown.remove(least)
    return shown


def _narrowest(columns: Sequence[Column], rows: Sequence[Row], shown: Sequence[int]) -> int:
    """The least width that these columns need, their gaps counted."""
    return sum(_least_width(columns[index], rows, index) for index in shown) + _GAP * (len(shown) - 1)


def _least_width(column: Column, rows: Sequence[Row], index: int) -> int:
    """In one line, or, where a column may be wrapped, without breaking words that are not very long."""
    cells = [one.cells[index].text for one in rows]
    full = max(len(column.name), *map(len, cells))
    if not column.wrap_to:
        return full
    longest_word = max(len(word) for text in (column.name, *cells) for word in text.split() or [""])
    return min(full, max(column.wrap_to, min(longest_word, _WORD_MAX)))


def _pairs(rows: Sequence[tuple[str, str]]) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(Text(name), Text(text))
    return grid


def _hanging(mark: str, text: str, style: str) -> RichTable:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row(Text(mark, style=style), Text(text))
    return grid
