"""Whether reduced precision and compilation train as fp32 does: losses over the same samples."""

from __future__ import annotations

from pydantic import Field

from planner.plans.numerics_check import Guard
from planner.reports import formats
from planner.reports.chart import Axis, Chart, ChartSeries, Point, Scale, Ticks
from planner.reports.content import Block, Paragraph, Plots, Section
from planner.reports.labels import technique
from planner.reports.models import ConfigJson, JsonModel, TextOrNone
from planner.reports.report import Report


class GuardJson(JsonModel):
    """Two loss curves over the same steps."""

    configuration: ConfigJson = Field(validation_alias="config")
    losses: tuple[float, ...]
    reference: ConfigJson
    reference_losses: tuple[float, ...]
    rejection: TextOrNone


class Data(JsonModel):
    """Every comparison of losses."""

    guards: tuple[GuardJson, ...]


def section(report: Report) -> Section:
    """A sentence and a plot for each comparison."""
    blocks: list[Block] = []
    for number, guard in enumerate(report.guards, start=1):
        blocks += [Paragraph(text=guard_line(guard)), Plots(title="", charts=(_chart(guard, number),))]
    return Section(
        title="Numerics check against fp32",
        blocks=tuple(blocks),
        data=Data.model_validate(report),
    )


def guard_line(guard: Guard) -> str:
    """Whether the configuration trains as its reference does."""
    name, reference = technique(guard.config), technique(guard.reference)
    if guard.rejection:
        return f"Rejected: {name} does not train as {reference} does; {guard.rejection}."
    count = min(len(guard.losses), len(guard.reference_losses))
    return (
        f"{name} trains as {reference} does: {count} steps over the same samples end at a loss of "
        f"{guard.losses[count - 1]:.4g} and {guard.reference_losses[count - 1]:.4g}."
    )


def _chart(guard: Guard, number: int) -> Chart:
    """The reference's curve, and the configuration's as far as it was finite."""
    curves = (
        (guard.reference_losses, guard.reference, "series-0"),
        (guard.losses, guard.config, "series-1"),
    )
    return Chart(
        key=f"losses-{number}",
        title=f"Loss of {technique(guard.config)} beside {technique(guard.reference)}",
        description=guard_line(guard),
        x=Axis(
            title="optimizer step", show=lambda step: str(int(step)), scale=Scale.AROUND, ticks=Ticks.WHOLE
        ),
        y=Axis(title="loss", show=lambda loss: formats.significant(loss, 3), scale=Scale.AROUND),
        series=tuple(
            ChartSeries(
                points=tuple(Point(x=step, y=loss) for step, loss in enumerate(losses, start=1)),
                name=technique(config),
                colour=colour,
                line="curve",
            )
            for losses, config, colour in curves
            if losses
        ),
        caption="Loss by optimizer step",
    )
