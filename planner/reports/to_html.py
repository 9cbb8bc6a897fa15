"""The report as one self-contained page: no external address, works offline, dark and light."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from planner.estimate.values import Estimate
from planner.reports import formats, svg
from planner.reports.axes import PixelAxis, positive_axis
from planner.reports.content import Column, Figure, Headline, Table
from planner.reports.draw import draw
from planner.reports.report import Report
from planner.reports.sections import sections_of

BAR_WIDTH, BAR_HEIGHT = 220, 16
CELL_WIDTH = 120


def render(report: Report) -> str:
    """The whole page."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["block"] = lambda block, name: type(block).__name__ == name
    environment.filters["prose"] = _prose
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    head, *sections = sections_of(report)
    title = next(one.text for one in head.blocks if isinstance(one, Headline))
    return environment.get_template("page.html.j2").render(
        report=report,
        title=title,
        head=head,
        sections=sections,
        draw=draw,
        figure_bar=figure_bar,
        column_groups=column_groups,
        interval_cell=interval_cell,
        formats=formats,
    )


def _prose(text: str) -> Markup:
    """Text whose factors stay in one line and whose commands, in backticks, look like some."""
    shown = re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(formats.unbroken(text))))
    return Markup(shown)  # noqa: S704  # escaped before the tags were put in


def figure_bar(figure: Figure) -> Markup:
    """Low to high on a scale from zero, the middle marked, and the limit where it is near."""
    estimate, limit = figure.interval, figure.limit
    end = estimate.high * 1.15
    if limit is not None and limit <= estimate.high * 2.5:
        end = max(end, limit * 1.08)
    axis = PixelAxis(low=0.0, high=end, start_px=1, end_px=BAR_WIDTH - 1)
    middle = BAR_HEIGHT / 2
    left, right = axis.px(estimate.low), axis.px(estimate.high)
    parts = [
        svg.line(1, middle, BAR_WIDTH - 1, middle, "track"),
        svg.element(
            "rect", x=left, y=middle - 4, width=max(right - left, 2), height=8, rx=4, class_="extent"
        ),
        svg.circle(axis.px(estimate.expected), middle, 4.5, "middle", "expected"),
    ]
    if limit is not None and axis.has(limit):
        parts.append(svg.line(axis.px(limit), 1, axis.px(limit), BAR_HEIGHT - 1, "limit"))
    return svg.element(
        "svg",
        *parts,
        viewBox=f"0 0 {BAR_WIDTH} {BAR_HEIGHT}",
        class_="interval",
        role="img",
        aria_label=f"{figure.name}: {figure.note}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnGroup:
    """A column of the page: a column of the table, and those that stand under it in small type."""

    index: int
    column: Column
    under: tuple[int, ...]
    axis: PixelAxis | None  # that its intervals share


def column_groups(table: Table) -> tuple[ColumnGroup, ...]:
    """Columns as a page has them."""
    starts = [index for index, one in enumerate(table.columns) if not one.is_under]
    ends = [*starts[1:], len(table.columns)]
    return tuple(
        ColumnGroup(
            index=start,
            column=table.columns[start],
            under=tuple(range(start + 1, end)),
            axis=_axis(table, start),
        )
        for start, end in zip(starts, ends, strict=True)
    )


def _axis(table: Table, index: int) -> PixelAxis | None:
    intervals = [row.cells[index].interval for row in table.rows]
    edges = [edge for one in intervals if one is not None for edge in (one.low, one.high)]
    return positive_axis(edges, 4, CELL_WIDTH - 4) if edges else None


def interval_cell(interval: Estimate, axis: PixelAxis) -> Markup:
    """An interval on the axis that its column shares."""
    middle = BAR_HEIGHT / 2
    basis = interval.basis
    return svg.element(
        "svg",
        svg.line(axis.px(interval.low), middle, axis.px(interval.high), middle, "extent-line"),
        svg.circle(axis.px(interval.expected), middle, 4, f"plan-dot {basis}", basis.value),
        viewBox=f"0 0 {CELL_WIDTH} {BAR_HEIGHT}",
        class_="cell-interval",
        aria_hidden="true",
    )
