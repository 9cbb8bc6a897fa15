"""Which global batch size and why: what each costs for the same loss."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from planner.estimate.noise_scale import ADAM_POWERS, NoiseScale
from planner.estimate.values import Estimate
from planner.plans.batch_size import BatchChoice, BatchOption
from planner.reports import formats
from planner.reports.content import Cell, Column, Row, Section, Table, texts
from planner.reports.labels import devices
from planner.reports.models import JsonModel, TextOrNone
from planner.reports.report import Report
from trials.api import GradientNoise

CAVEAT = (
    "The noise scale grows as the loss falls, often more than tenfold over a run: a value measured early "
    "overstates the samples that a larger batch needs and flatters a smaller one."
)


def _adam_factors(sgd_factor: float) -> tuple[float, ...]:
    return tuple(sorted(sgd_factor**power for power in ADAM_POWERS))


class RangeJson(JsonModel):
    """Three numbers in the unit of their key; high is null where nothing bounds it."""

    low: float
    expected: float
    high: float | None


class BatchOptionJson(JsonModel):
    """One global batch size: what it needs and costs for the same loss."""

    global_batch_size: int = Field(validation_alias="size")
    samples: int = Field(validation_alias=AliasPath("target", "samples"))
    samples_factor: RangeJson = Field(validation_alias="samples")
    learning_rate_factor_sgd: float = Field(validation_alias="learning_rate_factor")
    learning_rate_factors_adam: Annotated[tuple[float, ...], BeforeValidator(_adam_factors)] = Field(
        validation_alias="learning_rate_factor"
    )
    is_within_limits: Annotated[bool, BeforeValidator(lambda winner: winner is not None)] = Field(
        validation_alias=AliasPath("answer", "winner")
    )
    gpu: str | None = Field(default=None, validation_alias=AliasPath("plan", "offer", "gpu"))
    gpu_count: int | None = Field(default=None, validation_alias=AliasPath("plan", "device_count"))
    cost_usd: Estimate | None = Field(default=None, validation_alias=AliasPath("plan", "cost_usd"))
    duration_s: Estimate | None = Field(default=None, validation_alias=AliasPath("plan", "duration_s"))


class BatchChoiceJson(JsonModel):
    """The choice of the global batch size."""

    low: int = Field(validation_alias=AliasPath("range", "low"))
    high: int = Field(validation_alias=AliasPath("range", "high"))
    reference: int
    chosen: int = Field(validation_alias=AliasPath("chosen", "size"))
    noise_scale_samples: RangeJson | None = Field(validation_alias="scale")
    draw_count: int | None = Field(default=None, validation_alias=AliasPath("scale", "draw_count"))
    from_checkpoint: str | None = Field(default=None, validation_alias=AliasPath("noise", "checkpoint"))
    problem: TextOrNone
    sizes: tuple[BatchOptionJson, ...] = Field(validation_alias="options")


class Data(JsonModel):
    """Null where the batch size was not the planner's to choose."""

    batch_choice: BatchChoiceJson | None = Field(validation_alias="batch")


def section(report: Report) -> Section:
    """A row for each size, the choice with its learning rate, and what to mind; nothing without a range."""
    batch = report.batch
    data = Data.model_validate(report)
    if batch is None or batch.scale is None or batch.noise is None:
        return Section(title="", blocks=(), data=data)
    table = Table(
        label="global batch sizes",
        columns=(
            Column(name="batch"),
            Column(name="samples \N{MULTIPLICATION SIGN}"),
            Column(name="SGD lr"),
            Column(name="Adam lr"),
            Column(name="devices", wrap_to=12),
            Column(name="time"),
            Column(name="cost"),
            Column(name=formats.percent(report.recommendation.confidence), drop=1),
        ),
        rows=tuple(_row(one, batch) for one in batch.options),
    )
    return Section(
        title="Which global batch size, at the same loss",
        blocks=(table, *texts(*batch_lines(report))),
        data=data,
    )


def batch_lines(report: Report) -> tuple[str, ...]:
    """The noise scale, the choice with its learning rate, and what to mind; nothing without a range."""
    batch = report.batch
    if batch is None or batch.scale is None or batch.noise is None:
        return ()
    at_checkpoint = (
        ""
        if batch.noise.checkpoint
        else " `planner sweep --from-checkpoint FILE` measures it later in training."
    )
    level = formats.percent(report.recommendation.confidence)
    return (_scale_line(batch, batch.scale, batch.noise, level), choice_line(batch), CAVEAT + at_checkpoint)


def batch_problem(report: Report) -> str:
    """That the size stays for want of a noise scale; "" otherwise."""
    return choice_line(report.batch) if report.batch is not None and report.batch.problem else ""


def choice_line(batch: BatchChoice) -> str:
    """The chosen size against the reference, and the learning rate that goes with it."""
    chosen, reference = batch.chosen, batch.reference
    if batch.problem:
        return (
            f"The global batch size stays {reference}, of {batch.range.low} to {batch.range.high}: what "
            f"another would cost is not known without the gradient noise scale ({batch.problem})."
        )
    if chosen.size == reference:
        return f"The batch of {reference} stays: no other size is cheaper by more than noise."
    own = next(one for one in batch.options if one.size == reference)
    samples = chosen.samples
    return (
        f"A batch of {chosen.size} instead of {reference}: the same loss takes "
        f"{_number(samples.expected)} times the samples ({_number(samples.low)} to {_number(samples.high)})"
        f"{_saving(chosen, own)}. Multiply SGD's learning rate by {_number(chosen.learning_rate_factor)} "
        f"(the best one is as 1 / (1 + noise scale / batch)), Adam's by {_adam(chosen)}, and try values "
        "around it."
    )


def _scale_line(batch: BatchChoice, scale: NoiseScale, noise: GradientNoise, level: str) -> str:
    high = "no upper end" if scale.high is None else _number(scale.high)
    at = "after a trial's own steps" if noise.checkpoint is None else f"at the weights of {noise.checkpoint}"
    return (
        f"The gradient noise scale is {_number(scale.expected)} samples ({level}: {_number(scale.low)} to "
        f"{high}; {scale.draw_count} draws of {noise.big_batch_size} samples {at}). A batch of B needs "
        f"(scale + B) / (scale + {batch.reference}) of the samples that a batch of {batch.reference} needs."
    )


def _saving(chosen: BatchOption, own: BatchOption) -> str:
    if chosen.plan is None or own.plan is None:
        return ""
    cost, own_cost = chosen.plan.cost_usd.expected, own.plan.cost_usd.expected
    times = (chosen.plan.duration_s.expected, own.plan.duration_s.expected)
    return (
        f", and the run costs {formats.usd(cost)} instead of {formats.usd(own_cost)} and takes "
        f"{formats.duration(times[0])} instead of {formats.duration(times[1])}"
    )


def _row(one: BatchOption, batch: BatchChoice) -> Row:
    samples = one.samples
    spread = (
        "" if samples.low == samples.high else f" ({_short(samples.low)}\N{EN DASH}{_short(samples.high)})"
    )
    is_chosen = one.size == batch.chosen.size
    name = f"{one.size}{' chosen' if is_chosen else ' yours' if one.size == batch.reference else ''}"
    shares = (f"{_short(samples.expected)}{spread}", _short(one.learning_rate_factor), _adam(one))
    priced = ("no plan", "", "", "")
    if one.plan is not None:
        limits = "" if one.answer.winner is not None else ", over the limits"
        cost = one.plan.cost_usd
        priced = (
            f"{devices(one.plan)}{limits}",
            formats.duration(one.plan.duration_s.expected),
            formats.usd(cost.expected),
            formats.span(cost, formats.usd),
        )
    return Row(cells=tuple(Cell(text=text) for text in (name, *shares, *priced)), is_best=is_chosen)


def _adam(one: BatchOption) -> str:
    """Between two powers of SGD's factor."""
    low, high = _adam_factors(one.learning_rate_factor)
    shown = (_short(low), _short(high))
    return shown[0] if shown[0] == shown[1] else f"{shown[0]}\N{EN DASH}{shown[1]}"


def _number(value: float) -> str:
    return formats.significant(value, 3)


def _short(value: float) -> str:
    return formats.significant(value, 2)
