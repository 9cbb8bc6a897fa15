"""The head: what to rent, at most three choices to act on, and what must be known before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from pydantic import AliasPath, Field

from planner.estimate.values import Basis, Estimate
from planner.flags import echo
from planner.plans.recommendation import Recommendation
from planner.reports import formats, labels
from planner.reports.choices import choices, risk
from planner.reports.content import Block, Card, Cards, Caution, Figure, Headline, Paragraph, Section
from planner.reports.models import SCHEMA_VERSION, JsonModel, PlanJson
from planner.reports.report import Report
from planner.reports.sections.cautions import head_cautions
from planner.reports.sections.settling import trial_advice

BASIS_WORDS = {
    Basis.MEASURED: "measured in this configuration on this device type and count",
    Basis.INTERPOLATED: "interpolated between measurements on this device type and count",
    Basis.PREDICTED: "predicted; this device type and count was not measured",
}


def _from(*path: str) -> Any:
    return Field(validation_alias=AliasPath(*path))


class WorkloadJson(JsonModel):
    """The user's file and what a look at it found."""

    path: str = _from("workload", "path")
    sha256: str = _from("workload", "sha256")
    adapter: str = _from("profile", "adapter")
    parameter_count: int = _from("profile", "parameter_count")
    trainable_parameter_count: int = _from("profile", "trainable_parameter_count")
    sample_shape: str = _from("profile", "sample_shape")
    dataset_size: int | None = _from("profile", "dataset_size")


class TargetJson(JsonModel):
    """The run that was asked for."""

    samples: int
    global_batch_size: int
    step_count: int
    tokens_per_sample: int | None
    budget_usd: float | None
    deadline_s: float | None
    hour_value_usd: float | None


class ChoiceJson(JsonModel):
    """One of the choices in the head, by its rank among the plans."""

    title: str
    best_rank: int
    risk: str


class Data(JsonModel):
    """What was asked, and the answer."""

    schema_version: int
    planner_version: str
    generated_at: datetime
    study: str
    status: Literal["plan", "nothing fits", "no plan"]
    headline: str
    choices: tuple[ChoiceJson, ...]
    workload: WorkloadJson
    target: TargetJson
    confidence_fraction: float
    """Of every interval."""
    provisioning_s: float
    """From the request of instances to the first step, as far as no trial measures it."""
    assumptions: dict[str, float | str | None]
    """What was stated, or assumed, of the costs on top of rent, by the flags' fields, in base units."""
    winner: PlanJson | None
    nearest: PlanJson | None
    """The plan that breaks the limits least, where none keeps them."""


def section(report: Report) -> Section:
    """The head of every form."""
    answer = report.recommendation
    best = answer.best
    risks = head_cautions(report)
    blocks: list[Block] = [Caution(text=one.text) for one in risks if one.is_first]
    blocks.append(Headline(text=headline(answer), lede=_lede(answer)))
    if best is not None:
        blocks.append(Cards(cards=tuple(_cards(report))))
    blocks += [Caution(text=one.text) for one in risks if not one.is_first]
    trial = answer.useful_trial
    if trial is not None and trial.is_worth_its_price:
        blocks.append(Paragraph(text=f"Worth its price before renting: {trial_advice(trial)}"))
    return Section(title="", blocks=tuple(blocks), data=_data(report))


def headline(answer: Recommendation) -> str:
    """What to rent, in one line."""
    if answer.winner is not None:
        basis = "" if answer.measured_gpus else ", by the trace alone"
        return f"Rent {labels.known_by(answer.winner)}{basis}"
    if answer.nearest is not None:
        return f"Nothing fits {limits(answer)}"
    return "No offer can carry this run"


def limits(answer: Recommendation) -> str:
    """The budget and the deadline, as far as there are any."""
    target = answer.target
    parts = (
        f"a budget of {formats.usd_limit(target.budget_usd)}" if target.budget_usd is not None else "",
        f"a deadline of {formats.duration(target.deadline_s)}" if target.deadline_s is not None else "",
    )
    return " and ".join(one for one in parts if one) or "without limits"


def _lede(answer: Recommendation) -> str:
    if answer.winner is not None:
        return labels.instance(answer.winner)
    return f"The nearest plan is {labels.known_by(answer.nearest)}" if answer.nearest else ""


def _cards(report: Report) -> Iterator[Card]:
    answer = report.recommendation
    level = formats.percent(answer.confidence)
    target = answer.target
    for choice in choices(answer):
        plan = choice.plan
        yield Card(
            title=choice.title,
            name=labels.known_by(plan),
            place=labels.instance(plan),
            figures=(
                _figure("cost", plan.cost_usd, formats.usd, target.budget_usd, level),
                _figure("time", plan.duration_s, formats.duration, target.deadline_s, level),
            ),
            basis=plan.basis,
            basis_text=f"speed {BASIS_WORDS[plan.basis]}",
            risk=risk(plan, report.generated_at.date()),
        )


def _figure(name: str, estimate: Estimate, show: formats.Show, limit: float | None, level: str) -> Figure:
    return Figure(
        name=name,
        text=show(estimate.expected),
        note=f"{level}: {formats.interval(estimate, show)}",
        interval=estimate,
        limit=limit,
    )


def _data(report: Report) -> Data:
    answer = report.recommendation
    today = report.generated_at.date()
    return Data.model_validate(
        {
            "schema_version": SCHEMA_VERSION,
            "planner_version": report.planner_version,
            "generated_at": report.generated_at,
            "study": report.study,
            "status": "plan" if answer.winner else "nothing fits" if answer.nearest else "no plan",
            "headline": headline(answer),
            "choices": tuple(
                ChoiceJson(title=one.title, best_rank=one.plan.rank, risk=risk(one.plan, today))
                for one in choices(answer)
            ),
            "workload": report,
            "target": answer.target,
            "confidence_fraction": answer.confidence,
            "provisioning_s": answer.terms.assumptions.provisioning_s,
            "assumptions": echo(answer.terms.assumptions),
            "winner": answer.winner,
            "nearest": answer.nearest,
        }
    )
