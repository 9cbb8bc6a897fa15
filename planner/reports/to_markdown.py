"""The report as Markdown, for pull requests, issues and wikis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from planner.reports.content import (
    Block,
    Cards,
    Caution,
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

_SPECIAL = re.compile(
    r"[\\`*_{}\[\]<>|#&~]|\$(?!\d)"
)  # before a digit $ is an amount, else it opens a formula


def render(report: Report) -> str:
    """The same content as the other forms, in GitHub's dialect."""
    parts = (part for section in sections_of(report) for part in _section(section))
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> Iterator[str]:
    blocks = [one for one in section.blocks if not isinstance(one, Plots)]
    if blocks and section.title:
        yield f"## {_text(section.title)}"
    for kind, group in groupby(blocks, key=type):
        texts = [_block(one) for one in group]
        yield ("\n>\n" if kind is Caution else "\n\n").join(texts)


def _block(block: Block) -> str:
    match block:
        case Headline():
            return f"# {_text(block.text)}" + (f"\n\n{_text(block.lede)}" if block.lede else "")
        case Caution():
            return f"> **Note:** {_text(block.text)}"
        case Paragraph():
            return _text(block.text)
        case Cards():
            return _cards(block)
        case Fields():
            return _table(("", ""), [(_text(one.name), _text(one.text)) for one in block.rows])
        case Items():
            marks = {None: "", True: "**yes**: ", False: "no: "}
            return "\n".join(f"- {marks[one.is_yes]}{_text(one.text)}" for one in block.rows)
        case Table():
            total = [_cells(block.total, "**")] if block.total else []
            head = [_text(one.name) for one in block.columns]
            return _table(head, [*(_cells(one) for one in block.rows), *total])
        case Plots():
            return ""


def _cards(block: Cards) -> str:
    head = ("", *(_text(one.title) for one in block.cards))
    figures = [one.name for one in block.cards[0].figures]
    rows = [
        ("rent", *(f"**{_text(one.name)}**<br>{_text(one.place)}" for one in block.cards)),
        *(
            (
                name,
                *(
                    f"{_text(one.figures[index].text)} ({_text(one.figures[index].note)})"
                    for one in block.cards
                ),
            )
            for index, name in enumerate(figures)
        ),
        ("basis", *(_text(one.basis_text) for one in block.cards)),
        ("main risk", *(_text(one.risk) for one in block.cards)),
    ]
    return _table(head, rows)


def _cells(row: Row, mark: str = "") -> list[str]:
    texts = [_text(one.text) for one in row.cells]
    return [f"{mark}{one}{mark}" if one else "" for one in texts]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str) -> str:
    """Plain text: what Markdown or HTML would take for markup is escaped, lines are joined."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))
