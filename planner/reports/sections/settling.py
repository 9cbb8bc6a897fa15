"""The trials that would make the choice surer: what each costs and what it is expected to save."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from catalogs.gpus import DeviceKind
from planner.plans.recommendation import Recommendation
from planner.plans.value_of_information import UsefulTrial
from planner.reports import formats, labels
from planner.reports.content import Item, Items, Section
from planner.reports.models import JsonModel, OfferJson, of_answer
from planner.reports.report import Report

SETTLING_SHOWN = 3


class UsefulTrialJson(JsonModel):
    """A trial that would settle a prediction, and what knowing its result is worth."""

    device: str = Field(validation_alias=AliasPath("offer", "gpu"))
    is_gpu: Annotated[bool, BeforeValidator(lambda kind: kind is DeviceKind.GPU)] = Field(
        validation_alias=AliasPath("plan", "hardware", "gpu", "kind")
    )
    offer: OfferJson
    instance_count: int
    trial_s: float
    cost_usd: float
    expected_saving_usd: float | None
    settles_rank: int = Field(validation_alias=AliasPath("plan", "rank"))
    rival_rank: int | None = Field(default=None, validation_alias=AliasPath("rival", "rank"))


class Data(JsonModel):
    """What was measured, and the trials that would settle the predictions that decide."""

    useful_trial: UsefulTrialJson | None = of_answer("useful_trial")
    settling: tuple[UsefulTrialJson, ...] = of_answer("settling")
    is_gpu_measured: bool = of_answer("is_gpu_measured")
    measured_devices: tuple[str, ...] = of_answer("measured_gpus")
    unpriced_devices: tuple[str, ...] = of_answer("unpriced_gpus")


def section(report: Report) -> Section:
    """The most useful first."""
    rows = tuple(Item(text=one) for one in settling_lines(report.recommendation))
    return Section(
        title="Trials that would make the choice surer",
        blocks=(Items(rows=rows),) if rows else (),
        data=Data.model_validate(report),
    )


def settling_lines(answer: Recommendation) -> tuple[str, ...]:
    """What would settle the predictions that decide, the most useful first."""
    worth = [one for one in answer.settling if one.is_worth_its_price]
    shown = (worth or list(answer.settling[:1]))[:SETTLING_SHOWN]
    rest = [one for one in answer.settling if one not in shown]
    lines = [trial_advice(one) for one in shown]
    if rest:
        names = ", ".join(dict.fromkeys(labels.named(one.plan) for one in rest))
        lines.append(
            f"The {formats.counted(len(rest), 'other prediction')} that could change the choice "
            f"({names}) would cost more to measure than it is expected to save."
            if not any(one.is_worth_its_price for one in rest)
            else f"Less useful, but worth their price: trials for {names}."
        )
    return tuple(lines)


def trial_advice(trial: UsefulTrial) -> str:
    """A trial, its price, what it decides and what that is expected to save."""
    plan, rival, saving_usd = trial.plan, trial.rival, trial.expected_saving_usd
    what = (
        f"A trial of {formats.duration(trial.trial_s)} on "
        f"{formats.times(trial.instance_count * trial.offer.gpu_count, trial.offer.gpu)} "
        f"({trial.offer.instance_type} from {trial.offer.provider}, {trial.offer.pricing}), about "
        f"{formats.usd(trial.cost_usd)}, would"
    )
    believed = f"now believed to cost {formats.interval(plan.cost_usd, formats.usd)}"
    if rival is None or saving_usd is None:
        return f"{what} tell whether {labels.named(plan)}, {believed}, fits after all."
    first, second = sorted((plan, rival), key=lambda one: one.rank)
    worth = formats.usd(saving_usd) if trial.is_worth_its_price else "less than it costs"
    return (
        f"{what} decide between rank {first.rank} ({labels.named(first)}) and rank {second.rank} "
        f"({labels.named(second)}): {labels.named(plan)} is {believed}. Expected saving: "
        f"{worth}."
    )
