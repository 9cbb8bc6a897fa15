"""Which global batch size and why, in words and rows: what each costs for the same loss."""

from __future__ import annotations

from planner.estimate.noise_scale import ADAM_POWERS, NoiseScale
from planner.plans.batch_size import BatchChoice, BatchOption
from planner.reports import formats
from planner.reports.labels import devices
from planner.reports.report import Report
from trials.extras import GradientNoise

BATCH_TITLE = "Which global batch size, at the same loss"
CAVEAT = (
    "The scale grows as the loss falls, often more than tenfold over a run: measured early it charges a "
    "larger batch too many samples, and gives a smaller one too much credit."
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


def batch_head(report: Report) -> tuple[str, ...]:
    """Names of the columns of `batch_rows`."""
    level = formats.percent(report.recommendation.confidence)
    return ("batch", "samples \N{MULTIPLICATION SIGN}", "SGD lr", "Adam lr", "devices", "time", "cost", level)


def batch_rows(report: Report) -> tuple[tuple[str, ...], ...]:
    """A row for each size that was compared; the chosen one is marked in words."""
    if report.batch is None or report.batch.scale is None:
        return ()
    return tuple(_row(one, report.batch) for one in report.batch.options)


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


def _row(one: BatchOption, batch: BatchChoice) -> tuple[str, ...]:
    samples = one.samples
    spread = (
        "" if samples.low == samples.high else f" ({_short(samples.low)}\N{EN DASH}{_short(samples.high)})"
    )
    is_chosen = one.size == batch.chosen.size
    name = f"{one.size}{' chosen' if is_chosen else ' yours' if one.size == batch.reference else ''}"
    shares = (f"{_short(samples.expected)}{spread}", _short(one.learning_rate_factor), _adam(one))
    if one.plan is None:
        return (name, *shares, "no plan", "", "", "")
    limits = "" if one.answer.winner is not None else ", over the limits"
    cost = one.plan.cost_usd
    return (
        name,
        *shares,
        f"{devices(one.plan)}{limits}",
        formats.duration(one.plan.duration_s.expected),
        formats.usd(cost.expected),
        formats.span(cost, formats.usd),
    )


def _adam(one: BatchOption) -> str:
    """Between two powers of SGD's factor."""
    low, high = sorted(one.learning_rate_factor**power for power in ADAM_POWERS)
    shown = (_short(low), _short(high))
    return shown[0] if shown[0] == shown[1] else f"{shown[0]}\N{EN DASH}{shown[1]}"


def _number(value: float) -> str:
    return formats.significant(value, 3)


def _short(value: float) -> str:
    return formats.significant(value, 2)
