"""Why not that GPU, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from catalogs.gpus import Gpu
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.plans.why_not import WhyNot
from planner.reports import formats
from planner.reports.labels import configuration, devices, fit, place, rental
from planner.reports.models import SCHEMA_VERSION, JsonModel, LeastMemoryJson, LeftOutJson, PlanRowJson


class WhyJson(JsonModel):
    """Why not that GPU: keys as in a report, base units, null for unknown."""

    schema_version: int = SCHEMA_VERSION
    study: str = ""
    device: str = Field(validation_alias="gpu")
    is_winner: bool
    explanation: tuple[str, ...] = ()
    best: PlanRowJson | None
    plan: PlanRowJson | None
    wins_at_price_usd_per_hour: float | None = Field(validation_alias="price_usd_per_hour")
    wins_at_speed_ratio: float | None = Field(validation_alias="speedup")
    speed_ratio_of_interval: float | None = Field(validation_alias="speedup_of_interval")
    is_speed_within_interval: bool | None = Field(validation_alias="is_speedup_within_interval")
    scaling_fraction: float | None
    scaling_needed_fraction: float | None
    offer_count: int
    left_out: tuple[LeftOutJson, ...]
    least_memory: LeastMemoryJson | None = Field(validation_alias="too_small")


def to_json(found: WhyNot, study: str, lines: Sequence[str]) -> str:
    """JSON text, indented. ``lines`` is the same in words."""
    changes: dict[str, object] = {"study": study, "explanation": tuple(lines)}
    if found.speedup is None:
        changes["is_speed_within_interval"] = None
    return WhyJson.model_validate(found).model_copy(update=changes).model_dump_json(indent=2) + "\n"


def why_gpu(found: WhyNot, answer: Recommendation, chip: Gpu) -> tuple[str, ...]:
    """The answer first, then what would have to change, one line each."""
    if found.plan is None:
        return (f"{found.gpu} carries no plan.", *_left_out(found, chip))
    plan = found.plan
    if found.is_winner:
        return (f"{found.gpu} does win: {_is(answer.winner or plan)}.", *_left_out(found, chip))
    lines = (
        _standing(found, plan, answer),
        _price(found, plan),
        _speed(found, plan),
        _batch(plan),
        _scaling(found, plan),
        *_left_out(found, chip),
    )
    return tuple(one for one in lines if one)


def _standing(found: WhyNot, plan: Plan, answer: Recommendation) -> str:
    which = "best" if plan.is_within_limits else "nearest"
    text = f"The {which} plan on {found.gpu} is rank {plan.rank}: {_is(plan)}; {configuration(plan.config)}."
    winner = answer.winner
    if winner is None:
        return f"{text} It is {fit(plan)} at the high end, as every plan is."
    more = plan.weighed_usd.expected - winner.weighed_usd.expected
    waiting = ", the waiting counted" if answer.target.hour_value_usd else ""
    limits = "" if plan.is_within_limits else f" It is {fit(plan)} at the high end."
    if more < 0 and plan.is_tied_with_best:
        return (
            f"{text} It is expected to be cheaper than the winner, {_is(winner)}, by {formats.usd(-more)}"
            f"{waiting}, but the two costs cannot be told apart, and the winner is faster or better known."
        )
    if more < 0:
        return f"{text} It is cheaper than the winner by {formats.usd(-more)}{waiting}, but not safe.{limits}"
    return f"{text} The winner, {_is(winner)}, is cheaper by {formats.usd(more)}{waiting}.{limits}"


def _is(plan: Plan) -> str:
    cost, time = formats.usd(plan.cost_usd.expected), formats.duration(plan.duration_s.expected)
    return f"{rental(plan)} ({place(plan)}), {cost} in {time}, {plan.basis}"


def _price(found: WhyNot, plan: Plan) -> str:
    asked = plan.price_usd_per_hour
    if found.price_usd_per_hour is None:
        return "Price: at no price does it win; time alone keeps it out."
    each = found.price_usd_per_hour / plan.device_count
    less = formats.percent(1 - found.price_usd_per_hour / asked)
    return (
        f"Price: it wins at {formats.usd_per_hour(found.price_usd_per_hour)} or less, {less} below the "
        f"{formats.usd_per_hour(asked)} asked ({formats.usd_per_hour(each)} for each device)."
    )


def _speed(found: WhyNot, plan: Plan) -> str:
    if found.speedup is None:
        return "Speed: no speed makes it win; what is paid beside the steps is too much."
    reach = formats.ratio(found.speedup_of_interval or 1.0)
    where = (
        f"within its interval, which reaches {reach}: a measurement may settle it"
        if found.is_speedup_within_interval
        else f"outside its interval, which reaches {reach}"
    )
    needed_s = plan.step_time_s.expected / found.speedup
    return (
        f"Speed: it wins at {formats.ratio(found.speedup)} the expected speed, a step of "
        f"{formats.duration(needed_s)} for {formats.duration(plan.step_time_s.expected)}; that is {where}."
    )


def _batch(plan: Plan) -> str:
    """What stands in the way of a larger micro batch, which is how a GPU is used better."""
    config = plan.config
    if config.accumulation == 1:
        return (
            f"Batch: each device has all of its share of the global batch of {config.global_batch_size} at "
            f"once ({config.micro_batch_size}); only a larger --global-batch-size would fill it more."
        )
    return (
        f"Batch: {config.micro_batch_size} samples at once take up to "
        f"{formats.size(plan.peak_memory_bytes.high)} of {formats.size(plan.memory_bytes)}, and "
        f"{config.accumulation} such batches make its share of the global batch."
    )


def _scaling(found: WhyNot, plan: Plan) -> str:
    if found.scaling_fraction is None:
        return ""
    text = f"Scaling: {devices(plan)} reach {formats.percent(found.scaling_fraction)} of perfect scaling"
    if found.scaling_needed_fraction is None:
        return f"{text}."
    if found.scaling_needed_fraction <= 1:
        return f"{text}; {formats.percent(found.scaling_needed_fraction)} would make it win."
    return f"{text}; even all of it would not make it win."


def _left_out(found: WhyNot, chip: Gpu) -> tuple[str, ...]:
    if not found.offer_count:
        return (
            f"Nobody in the catalog offers it: --price {found.gpu}=DOLLARS makes an offer of your own of it, "
            "and `planner catalog refresh` may find one.",
        )
    lines = [f"{one.offer_count} of its {found.offer_count} offers: {one.reason}." for one in found.left_out]
    least = found.too_small
    if least is not None and least.needed_bytes is not None:
        lines.append(
            f"Memory: where it does not fit, the nearest needs {formats.size(least.needed_bytes)} on each "
            f"device at the high end, and {formats.size(least.memory_bytes)} are there (the card has "
            f"{formats.size(chip.memory_bytes)})."
        )
    return tuple(lines)
