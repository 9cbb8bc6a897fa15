"""Which global batch size and why: what each costs for the same loss."""

from __future__ import annotations

from planner.estimate.noise_scale import ADAM_POWERS, NoiseScale
from planner.plans.batch_size import BatchChoice, BatchOption
from planner.reports import formats
from planner.reports.content import Cell, Column, Row, Section, Table, texts
from planner.reports.labels import devices
from planner.reports.models import EstimateJson, JsonModel
from planner.reports.report import Report
from trials.api import GradientNoise

CAVEAT = (
    "The noise scale grows as the loss falls, often more than tenfold over a run: a value measured early "
    "overstates the samples that a larger batch needs and flatters a smaller one."
)


class RangeJson(JsonModel):
    """Three numbers in the unit of their key; high is null where nothing bounds it."""

    low: float
    expected: float
    high: float | None


class BatchOptionJson(JsonModel):
    """One global batch size: what it needs and costs for the same loss."""

    global_batch_size: int
    samples: int
    samples_factor: RangeJson
    learning_rate_factor_sgd: float
    learning_rate_factors_adam: tuple[float, ...]
    is_within_limits: bool
    gpu: str | None
    gpu_count: int | None
    cost_usd: EstimateJson | None
    duration_s: EstimateJson | None


class BatchChoiceJson(JsonModel):
    """The choice of the global batch size."""

    low: int
    high: int
    reference: int
    chosen: int
    noise_scale_samples: RangeJson | None
    draw_count: int | None
    from_checkpoint: str | None
    problem: str | None
    sizes: tuple[BatchOptionJson, ...]


class Data(JsonModel):
    """Null where the batch size was not the planner's to choose."""

    batch_choice: BatchChoiceJson | None


def section(report: Report) -> Section:
    """A row for each size, the choice with its learning rate, and what to mind; nothing without a range."""
    batch = report.batch
    data = Data(batch_choice=_json(batch) if batch else None)
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


def _json(batch: BatchChoice) -> BatchChoiceJson:
    scale, noise = batch.scale, batch.noise
    return BatchChoiceJson(
        low=batch.range.low,
        high=batch.range.high,
        reference=batch.reference,
        chosen=batch.chosen.size,
        noise_scale_samples=RangeJson.model_validate(scale) if scale else None,
        draw_count=len(noise.draws) if noise else None,
        from_checkpoint=noise.checkpoint if noise else None,
        problem=batch.problem or None,
        sizes=tuple(_option_json(one) for one in batch.options),
    )


def _option_json(one: BatchOption) -> BatchOptionJson:
    plan, rate = one.plan, one.learning_rate_factor
    return BatchOptionJson(
        global_batch_size=one.size,
        samples=one.target.samples,
        samples_factor=RangeJson.model_validate(one.samples),
        learning_rate_factor_sgd=rate,
        learning_rate_factors_adam=tuple(sorted(rate**power for power in ADAM_POWERS)),
        is_within_limits=one.answer.winner is not None,
        gpu=plan.offer.gpu if plan else None,
        gpu_count=plan.device_count if plan else None,
        cost_usd=EstimateJson.model_validate(plan.cost_usd) if plan else None,
        duration_s=EstimateJson.model_validate(plan.duration_s) if plan else None,
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
    low, high = sorted(one.learning_rate_factor**power for power in ADAM_POWERS)
    shown = (_short(low), _short(high))
    return shown[0] if shown[0] == shown[1] else f"{shown[0]}\N{EN DASH}{shown[1]}"


def _number(value: float) -> str:
    return formats.significant(value, 3)


def _short(value: float) -> str:
    return formats.significant(value, 2)
