"""How firm the choice is, in words: what time is worth, what would flip it, which trial would settle it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.plans.sensitivity import Sensitivity, WhatIf
from planner.plans.value_of_information import UsefulTrial
from planner.reports import formats
from planner.reports.labels import devices

TIME_VALUES_SHOWN = 4
SETTLING_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One sentence; marked where another plan would win."""

    text: str
    is_flipped: bool


def time_value(answer: Recommendation) -> str:
    """Which plan is best by what an hour of waiting is worth; "" where one is cheapest and fastest."""
    values = answer.time_values
    if len(values) <= 1:
        return ""
    first, *rest = values

    def at(plan: Plan) -> str:
        cost, time = formats.usd(plan.cost_usd.expected), formats.duration(plan.duration_s.expected)
        return f"{_named(plan)} ({cost} in {time})"

    steps = [at(first.plan)]
    steps += [f"from {formats.usd_up(one.hour_value_usd)} {at(one.plan)}" for one in rest[:TIME_VALUES_SHOWN]]
    if len(rest) > TIME_VALUES_SHOWN:
        steps.append(f"and {len(rest) - TIME_VALUES_SHOWN} faster still")
    return f"By what an hour of waiting is worth (--hour-value), the best plan is: {', '.join(steps)}."


def sensitivity_lines(answer: Recommendation) -> tuple[Line, ...]:
    """What would happen to the choice if things were otherwise."""
    return tuple(Line(text=_sensitivity(one), is_flipped=one.is_flipped) for one in answer.sensitivities)


def settling_lines(answer: Recommendation) -> tuple[str, ...]:
    """What would settle the predictions that decide, the most useful first."""
    worth = [one for one in answer.settling if one.is_worth_its_price]
    shown = (worth or list(answer.settling[:1]))[:SETTLING_SHOWN]
    rest = [one for one in answer.settling if one not in shown]
    lines = [trial_advice(one) for one in shown]
    if rest:
        names = ", ".join(dict.fromkeys(_named(one.plan) for one in rest))
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
        return f"{what} tell whether {_named(plan)}, {believed}, fits after all."
    first, second = sorted((plan, rival), key=lambda one: one.rank)
    worth = formats.usd(saving_usd) if trial.is_worth_its_price else "less than it costs"
    return (
        f"{what} decide between rank {first.rank} ({_named(first)}) and rank {second.rank} "
        f"({_named(second)}): {_named(plan)} is {believed}. Expected saving: "
        f"{worth}."
    )


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
            else f"rank {one.rival.rank} wins, {_named(one.rival)}"
        )
        return f"{question}: {then}{f'; {more} is enough' if more else ''}."
    return f"{question}: still the best{f'; {more} would {_lose(one.rival)}' if more else ''}."


def _lose(rival: Plan | None) -> str:
    return f"make rank {rival.rank} win ({_named(rival)})" if rival else "take it out of its limits"


def _more(change: WhatIf) -> str:
    return "longer" if change is WhatIf.SPEED_LOW else "more"


def _named(plan: Plan) -> str:
    """Devices, and the kind of price where it is not on-demand."""
    kind = plan.offer.pricing.value
    return devices(plan) if kind == "on-demand" else f"{devices(plan)} {kind}"
