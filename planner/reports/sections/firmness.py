"""What would change the choice: prices, the speed at its low end, the age of the price."""

from __future__ import annotations

from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.plans.sensitivity import Sensitivity, WhatIf
from planner.reports import formats, labels
from planner.reports.content import Item, Items, Section
from planner.reports.models import JsonModel
from planner.reports.report import Report

SECONDS_PER_DAY = 86_400


class SensitivityJson(JsonModel):
    """What another price or speed does to the choice."""

    change: WhatIf
    moved_fraction: float
    is_flipped: bool
    rival_rank: int | None
    flip_fraction: float | None
    price_age_s: float | None


class Data(JsonModel):
    """What would change the choice."""

    sensitivities: tuple[SensitivityJson, ...]


def section(report: Report) -> Section:
    """A question and its answer in each line."""
    answer = report.recommendation
    rows = sensitivity_lines(answer)
    return Section(
        title="What would change the choice",
        blocks=(Items(rows=rows),) if rows else (),
        data=Data(
            sensitivities=tuple(_sensitivity_json(one) for one in answer.sensitivities),
        ),
    )


def _sensitivity_json(one: Sensitivity) -> SensitivityJson:
    return SensitivityJson(
        change=one.change,
        moved_fraction=one.moved_fraction,
        is_flipped=one.is_flipped,
        rival_rank=one.rival.rank if one.rival else None,
        flip_fraction=one.flip_fraction,
        price_age_s=None if one.age_days is None else one.age_days * SECONDS_PER_DAY,
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
