"""The report as one self-contained page: no external address, works offline, dark and light."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from planner.estimate.values import Estimate
from planner.plans.plan import Plan
from planner.reports import formats, labels, provenance, svg, words
from planner.reports.axes import Axis, positive_axis
from planner.reports.batch_series import panels
from planner.reports.batch_words import BATCH_TITLE, batch_head, batch_lines, batch_rows
from planner.reports.bound_words import binding_lines
from planner.reports.cautions import first_warning, next_steps, warnings
from planner.reports.firmness import sensitivity_lines, time_value
from planner.reports.guard_words import guard_line
from planner.reports.plot_batch import memory_plot, throughput_plot
from planner.reports.plot_cost_time import cost_time_plot
from planner.reports.plot_losses import loss_plot
from planner.reports.renting import besides_steps, ways_to_rent
from planner.reports.report import Report
from planner.reports.shown import bill_rows, not_counted, shown_plans
from planner.reports.why import explanation
from trials.trial import Measurement

PLANS_SHOWN = 20
BAR_WIDTH, BAR_HEIGHT = 220, 16
CELL_WIDTH = 120


def render(report: Report) -> str:
    """The whole page."""
    answer = report.recommendation
    plans = shown_plans(answer, PLANS_SHOWN)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        report=report,
        answer=answer,
        plans=plans,
        cost_time=cost_time_plot(answer) if plans else None,
        cost_cells=_cost_cells(plans),
        panels=panels(report),
        guard_line=guard_line,
        loss_plot=loss_plot,
        throughput_plot=throughput_plot,
        memory_plot=memory_plot,
        interval_bar=interval_bar,
        bill=bill_rows,
        not_counted=not_counted,
        besides_steps=besides_steps,
        is_measurement=lambda one: isinstance(one, Measurement),
        binding_lines=tuple(formats.unbroken(one) for one in binding_lines(report)),
        batch_title=BATCH_TITLE,
        batch_head=batch_head(report),
        batch_rows=batch_rows(report),
        batch_lines=tuple(formats.unbroken(one) for one in batch_lines(report)),
        explanation=formats.unbroken(explanation(answer)),
        ways_to_rent=formats.unbroken(ways_to_rent(answer)),
        next_steps=tuple(formats.unbroken(one) for one in next_steps(report)),
        time_value=formats.unbroken(time_value(answer)),
        sensitivity=tuple((one.is_flipped, formats.unbroken(one.text)) for one in sensitivity_lines(answer)),
        first_warning=formats.unbroken(first_warning(report)),
        warnings=tuple(formats.unbroken(one) for one in warnings(report)),
        formats=formats,
        labels=labels,
        provenance=provenance,
        words=words,
    )


def interval_bar(estimate: Estimate, limit: float | None, name: str) -> Markup:
    """Low to high on a scale from zero, the middle marked, and the limit where it is near."""
    end = estimate.high * 1.15
    if limit is not None and limit <= estimate.high * 2.5:
        end = max(end, limit * 1.08)
    axis = Axis(low=0.0, high=end, start_px=1, end_px=BAR_WIDTH - 1)
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
        "svg", *parts, viewBox=f"0 0 {BAR_WIDTH} {BAR_HEIGHT}", class_="interval", role="img", aria_label=name
    )


def _cost_cells(plans: tuple[Plan, ...]) -> dict[int, Markup]:
    """By rank: the interval of the cost on an axis that all rows share."""
    if not plans:
        return {}
    edges = [edge for one in plans for edge in (one.cost_usd.low, one.cost_usd.high)]
    axis = positive_axis(edges, 4, CELL_WIDTH - 4)
    middle = BAR_HEIGHT / 2
    return {
        one.rank: svg.element(
            "svg",
            svg.line(axis.px(one.cost_usd.low), middle, axis.px(one.cost_usd.high), middle, "extent-line"),
            svg.circle(axis.px(one.cost_usd.expected), middle, 4, f"plan-dot {one.basis}", one.basis.value),
            viewBox=f"0 0 {CELL_WIDTH} {BAR_HEIGHT}",
            class_="cell-interval",
            aria_hidden="true",
        )
        for one in plans
    }
