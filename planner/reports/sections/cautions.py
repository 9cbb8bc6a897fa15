"""What the reader must know before acting, by what it could cost: three in the head, the rest here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalogs.gpus import DeviceKind
from planner.estimate.software_stack import stack_changes
from planner.modes.chosen import arithmetic_of
from planner.plans.numerics_check import reference_of
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats
from planner.reports.besides import lateness, unknown_interruptions
from planner.reports.content import Caution, Section
from planner.reports.models import JsonModel
from planner.reports.report import Report
from planner.reports.sections.batch_size import batch_problem
from planner.search.model_error import repeated_model_error

IN_HEAD = 3


class Data(JsonModel):
    """What the reader must know before acting, the dearest first."""

    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A warning, and about what it could cost."""

    text: str
    usd: float
    is_first: bool = False  # said before the answer


def section(report: Report) -> Section:
    """Those that the head has no room for."""
    risks = cautions(report)
    return Section(
        title="More to know before renting",
        blocks=tuple(Caution(text=one.text) for one in risks[IN_HEAD:]),
        data=Data(warnings=tuple(one.text for one in risks)),
        is_folded=True,
    )


def head_cautions(report: Report) -> tuple[Risk, ...]:
    """Those that could cost most."""
    return cautions(report)[:IN_HEAD]


def cautions(report: Report) -> tuple[Risk, ...]:
    """All of them, the one that could cost most first."""
    return tuple(sorted(_found(report), key=lambda one: (not one.is_first, -one.usd)))


def _found(report: Report) -> Iterator[Risk]:
    answer = report.recommendation
    best = answer.best
    if _failing(report):
        yield Risk(text=_failing(report), usd=0.0, is_first=True)
    if _not_measured(answer):
        yield Risk(text=_not_measured(answer), usd=0.0, is_first=True)
    if best is not None:
        yield from _of_plan(report, best)
    if batch_problem(report):
        yield Risk(text=batch_problem(report), usd=0.0)
    for link in report.slow_links:
        yield Risk(text=link.message, usd=0.0)
    for text in _upgrades(report):
        yield Risk(text=text, usd=0.0)
    if answer.sweep_usd is None and answer.target.budget_usd is not None:
        text = (
            "What the sweep cost is unknown, since its devices have no price; the budget is held against the "
            "run alone."
        )
        yield Risk(text=text, usd=0.0)
    for name in answer.unpriced_gpus:
        yield Risk(text=f"{name} was measured, but no offer in the catalog has it.", usd=0.0)


def _upgrades(report: Report) -> Iterator[str]:
    """What a newer torch, CUDA or driver changed, where configurations were measured under both."""
    confidence = report.recommendation.confidence
    level = formats.percent(confidence)
    changes = stack_changes(report.measurements).values()
    for change in {(one.older, one.newest): one for one in changes if one.pair_count}.values():
        ratio = change.ratio(confidence)
        low, middle, high = (f"{100 * (one - 1):+.0f}%" for one in (ratio.low, ratio.expected, ratio.high))
        pairs = formats.counted(change.pair_count, "configuration")
        yield (
            f"Since {change.newest.since(change.older)} a step takes {middle} ({level}: {low} to {high}), by "
            f"{pairs} measured under both; earlier trials count with that."
        )


def _of_plan(report: Report, plan: Plan) -> Iterator[Risk]:
    cost = plan.cost_usd
    late = plan.spot.miss_probability if plan.spot else None
    found = (
        (_unguarded(report, plan), cost.expected),
        (unknown_interruptions(plan), cost.expected),
        (_host_bound(plan), cost.expected * (plan.host_fraction or 0.0)),
        (_disturbed(report, plan), cost.high - cost.expected),
        (lateness(report.recommendation), cost.expected * (late or 0.0)),
    )
    for text, usd in found:
        if text:
            yield Risk(text=text, usd=usd)


def _not_measured(answer: Recommendation) -> str:
    """Where some GPU was measured, each plan's basis says whether its own was."""
    if answer.is_gpu_measured or not answer.plans:
        return ""
    if answer.measured_gpus:
        if all(one.hardware.gpu.kind is DeviceKind.CPU for one in answer.plans):
            return ""
        return (
            f"No GPU was measured: every GPU figure is predicted from trials on "
            f"{', '.join(answer.measured_gpus)} and the GPUs' data sheets, with wide intervals."
        )
    return (
        "Nothing was measured: every figure is predicted from the operations of one step and the GPUs' data "
        "sheets, with wide intervals."
    )


def _failing(report: Report) -> str:
    """The model file's error that ended the sweep, or why no trial at all succeeded."""
    error = repeated_model_error([one.outcome for one in report.trials])
    if error is not None:
        return f"The model file failed twice in a row: {error.reason}. Correct it and sweep again."
    if report.measurements or not report.failures:
        return ""
    last = report.failures[-1]
    return f"No trial succeeded; the last one: {last.kind}: {last.reason}."


def _host_bound(plan: Plan) -> str:
    if plan.host_fraction is None or not plan.is_host_bound:
        return ""
    return (
        f"The plan is launch-bound: for about {formats.percent(plan.host_fraction)} of each step "
        f"{plan.offer.gpu} is expected to wait while the CPU launches its kernels. A faster GPU gains "
        "little; a larger micro batch, torch.compile or a machine with a faster CPU gains more."
    )


def _disturbed(report: Report, plan: Plan) -> str:
    own = [one for one in report.measurements if one.config == plan.config]
    if not own or not own[-1].disturbance:
        return ""
    return (
        f"The last trial of this configuration was {own[-1].disturbance}, so its speed is less certain than "
        "the interval says. Sweep again when nothing else uses the devices."
    )


def _unguarded(report: Report, plan: Plan) -> str:
    if reference_of(plan.config) == plan.config:
        return ""
    arithmetic = arithmetic_of(plan.config)
    if arithmetic in {arithmetic_of(one.config) for one in report.guards}:
        return ""
    name = arithmetic.label
    return (
        f"No trial compared the losses of {name} and fp32: that the model trains as well in {name} is "
        "assumed. Watch the loss of the first steps."
    )
