"""What a report is made of: sections of blocks. A section file makes them once, each form only shows them.

Texts are plain: a form escapes and breaks them as it must. What has a number to sort or draw by carries it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.estimate.values import Basis, Estimate
from planner.reports.chart import Chart
from planner.reports.models import JsonModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The answer in one line, and what stands below it."""

    text: str
    lede: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Plain prose; a note is smaller and about what stands above it."""

    text: str
    is_note: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """What the reader must know before acting."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A name and what is said under it."""

    name: str
    text: str
    basis: Basis | None = None  # whose mark stands beside the name


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Facts by name."""

    rows: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a list; ``is_yes`` where it answers the title's question."""

    text: str
    is_yes: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list. A terminal shows the first ``short_count`` lines and says how many more there are."""

    rows: tuple[Item, ...]
    short_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number in large type; its interval is drawn from zero, with the limit where that is near."""

    name: str
    text: str
    note: str
    interval: Estimate
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A choice to act on: what to rent, cost and time, what they rest on, and what may spoil it."""

    title: str
    name: str
    place: str
    figures: tuple[Figure, ...]
    basis: Basis
    basis_text: str
    risk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """At most three choices side by side."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A table's column. Where a table is too wide the columns with the highest ``drop`` go first, 0 never.

    A column with ``wrap_to`` may be as narrow as that many characters, its texts in several lines.
    ``is_under`` sets it in small type under the column before it, where the form can.
    """

    name: str
    is_number: bool = False
    drop: int = 0
    wrap_to: int = 0
    is_under: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One text of a table."""

    text: str
    value: float | None = None  # to sort by
    basis: Basis | None = None  # whose mark stands before it
    interval: Estimate | None = None  # drawn on a scale that the column shares
    is_strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Cells in the order of the columns."""

    cells: tuple[Cell, ...]
    is_best: bool = False
    is_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns; the first cell of a row names it.

    Where there is little room ``short_count`` rows are shown, the first or the last ones.
    """

    label: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    total: Row | None = None
    short_count: int | None = None
    is_latest_last: bool = False
    is_sortable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plots:
    """Drawings under one title, side by side; only a page can show them."""

    title: str
    charts: tuple[Chart, ...]
    note: str = ""


Block = Headline | Paragraph | Caution | Fields | Items | Cards | Table | Plots


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the report: what people read, and the keys that it gives to the JSON."""

    title: str
    blocks: tuple[Block, ...]
    data: JsonModel = field(default_factory=JsonModel)
    is_small: bool = False  # in small type
    is_folded: bool = False  # where the form can fold


def texts(*texts: str, is_note: bool = False) -> tuple[Paragraph, ...]:
    """A paragraph for each text that says something."""
    return tuple(Paragraph(text=text, is_note=is_note) for text in texts if text)
