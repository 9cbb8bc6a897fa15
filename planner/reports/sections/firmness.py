"""What would change the choice: prices, the speed at its low end, the age of the price."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasPath, BeforeValidator, Field

from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.plans.sensitivity import Sensitivity, WhatIf
from planner.reports import formats, labels
from planner.reports.content import Item, Items, Section
from planner.reports.models import JsonModel, of_answer
from planner.reports.report import Report

SECONDS_PER_DAY = 86_400


class SensitivityJson(JsonModel):
    """What another price or speed does to the choice."""

    change: WhatIf
    moved_fraction: float
    is_flipped: bool
    rival_rank: int | None = Field(default=None, validation_alias=AliasPath("rival", "rank"))
    flip_fraction: float | None
    price_age_s: Annotated[
        float | None, BeforeValidator(lambda days: None if days is None else days * SECONDS_PER_DAY)
    ] = Field(validation_alias="age_days")


class Data(JsonModel):
    """What would change the choice."""

    sensitivities: tuple[SensitivityJson, ...] = of_answer("sensitivities")


def section(report: Report) -> Section:
    """A question and its answer in each line."""
    rows = sensitivity_lines(report.recommendation)
    return Section(
        title="What would change the choice",
        blocks=(Items(rows=rows),) if rows else (),
        data=Data.model_validate(report),
    )


def sensitivity_lines(answer: Recommendation) -> tuple[Item, ...]:
    """What would happen to the choice if things were otherwise."""
    return tuple(Item(text=_sensitivity(one), is_yes=one.is_flipped) for one in answer.sensitivities)


def _sensitivity(one: Sensitivity) -> str:
    moved = formats.percent(one.moved_fraction)
    question = {
        WhatIf.PRICE_UP: f"Its price {moved} up",
        WhatIf.RIVALS_DOWN: f"Other prices {moved} down",
        WhatIf.SPEED_LOW: f"Its speed at the low end (steps {moved} longer)",
        WhatIf.PRICE_AGE: f"Its price is {one.age_days} days old",
    }[one.change]
    more = "" if one.flip_fraction is None else f"{formats.percent(one.flip_fraction)} {_more(one.change)}"
    if one.change is WhatIf.PRICE_AGE and more:
        return f"{question}: {'' if one.is_flipped else 'only '}{more} would {_lose(one.rival)}."
    if one.is_flipped:
        then = (
            "it leaves its limits"
            if one.rival is None
            else f"rank {one.rival.rank} wins, {labels.named(one.rival)}"
        )
        return f"{question}: {then}{f'; {more} is enough' if more else ''}."
    return f"{question}: still the best{f'; {more} would {_lose(one.rival)}' if more else ''}."


def _lose(rival: Plan | None) -> str:
    return f"make rank {rival.rank} win ({labels.named(rival)})" if rival else "take it out of its limits"


def _more(change: WhatIf) -> str:
    return "longer" if change is WhatIf.SPEED_LOW else "more"
