"""The sentences of a report, the same in every output: numbers from the report, rounding from formats."""

from __future__ import annotations

from catalogs.gpus import DeviceKind
from planner.estimate.values import Basis
from planner.explain import Comparison, Shortfall, UsefulTrial
from planner.plan import Plan
from planner.recommend import Recommendation, StalePrices
from planner.reports import formats
from planner.reports.labels import configuration, devices, fit, place, rental
from planner.reports.report import Report

NAMED_TIES = 3
BASIS_WORDS = {
    Basis.MEASURED: "measured with this configuration on this device type and count",
    Basis.INTERPOLATED: "interpolated between measurements on this device type",
    Basis.PREDICTED: "predicted; this configuration was not measured on this device type and count",
}
BASIS_NOTES = (
    "measured: this configuration ran on this device type and count",
    "interpolated: computed between measurements on this device type",
    "predicted: from another device type or count, or from the operations of one step alone",
)


def headline(answer: Recommendation) -> str:
    """What to rent, in one line."""
    plan = answer.winner
    if plan is not None:
        return f"Rent {rental(plan)}"
    if answer.nearest is not None:
        return f"Nothing fits {limits(answer)}"
    return "No offer can carry this run"


def cost_and_time(plan: Plan, confidence: float) -> str:
    """The answer with its intervals."""
    return (
        f"The run is expected to cost {formats.usd(plan.cost_usd.expected)} "
        f"({formats.interval(plan.cost_usd, formats.usd)}) and to take "
        f"{formats.duration(plan.duration_s.expected)} "
        f"({formats.interval(plan.duration_s, formats.duration)}) at {formats.percent(confidence)} "
        f"confidence. Its speed is {BASIS_WORDS[plan.basis]}."
    )


def limits(answer: Recommendation) -> str:
    """The budget and the deadline, as far as there are any."""
    target = answer.target
    parts = (
        f"a budget of {formats.usd(target.budget_usd)}" if target.budget_usd is not None else "",
        f"a deadline of {formats.duration(target.deadline_s)}" if target.deadline_s is not None else "",
    )
    return " and ".join(one for one in parts if one) or "without limits"


def explanation(answer: Recommendation) -> str:
    """One paragraph: why this plan and not the next, or what would have to give."""
    if answer.winner is not None and answer.comparison is not None:
        return _why(answer, answer.winner, answer.comparison)
    if answer.nearest is not None and answer.shortfall is not None:
        return _what_would_have_to_give(answer, answer.nearest, answer.shortfall)
    return _why_no_plan(answer)


def warnings(report: Report) -> tuple[str, ...]:
    """What the reader must know before acting, the weightiest first."""
    answer = report.recommendation
    found = (
        _not_measured(answer),
        *(f"{name} was measured, but no offer in the catalog has it." for name in answer.unpriced_gpus),
        *(f"Not used: {one}" for one in answer.unmatched_devices),
        _stale(answer.stale_prices),
        *(f"The plan is on {note}." for note in (answer.best.notes if answer.best else ()) if "spot" in note),
        "What the sweep cost is unknown, since its devices have no price; the budget is held against the "
        "run alone."
        if answer.sweep_usd is None and answer.target.budget_usd is not None
        else "",
    )
    return tuple(one for one in found if one)


def trial_advice(trial: UsefulTrial) -> str:
    """Which trial would help most, with its price and its worth."""
    plan = trial.plan
    worth = (
        f"knowing the result is expected to save {formats.usd(trial.expected_saving_usd)} on this run"
        if trial.expected_saving_usd > trial.cost_usd
        else "on a run of this size that is expected to save less than it costs"
    )
    return (
        f"The trial that would help most: {formats.duration(trial.trial_s)} on {trial.offer.gpu} "
        f"({trial.offer.instance_type} from {trial.offer.provider}, {trial.offer.pricing}), about "
        f"{formats.usd(trial.cost_usd)}; its best plan is now believed to cost "
        f"{formats.interval(plan.cost_usd, formats.usd)}, and {worth}."
    )


def _why(answer: Recommendation, winner: Plan, comparison: Comparison) -> str:
    parts = [
        f"{devices(winner)} is the cheapest plan that keeps {limits(answer)} at the high end of its interval."
        if answer.target.budget_usd is not None or answer.target.deadline_s is not None
        else f"{devices(winner)} is the cheapest plan.",
        _passed_over(answer, comparison),
        _runner_up(comparison),
        _ties(answer, winner),
    ]
    return " ".join(one for one in parts if one)


def _passed_over(answer: Recommendation, comparison: Comparison) -> str:
    plan = comparison.passed_over
    if plan is None:
        return ""
    many = comparison.passed_over_count > 1
    reasons = []
    if not plan.is_within_deadline:
        reasons.append(
            f"take up to {formats.duration(plan.duration_s.high)}, past the deadline of "
            f"{formats.duration(answer.target.deadline_s)}"
        )
    if not plan.is_within_budget:
        reasons.append(
            f"need up to {formats.usd(plan.total_usd.high)}, over the budget of "
            f"{formats.usd(answer.target.budget_usd)}"
        )
    return (
        f"{comparison.passed_over_count} {'plans' if many else 'plan'} with a lower expected cost "
        f"{'were' if many else 'was'} passed over: {'the cheapest, ' if many else ''}{devices(plan)} "
        f"at {formats.usd(plan.cost_usd.expected)}, may {' and '.join(reasons)}."
    )


def _runner_up(comparison: Comparison) -> str:
    plan = comparison.runner_up
    if plan is None or comparison.extra_usd is None:
        return "No other device type or count carries a plan at a higher cost."
    speed, price = comparison.speed_ratio or 1.0, comparison.price_ratio or 1.0
    text = (
        f"The next different choice is {devices(plan)} ({plan.offer.instance_type} from "
        f"{plan.offer.provider}, {plan.basis}): {formats.ratio(speed)} the speed at "
        f"{formats.ratio(price)} the hourly price, so the run would cost "
        f"{formats.usd(plan.cost_usd.expected)}, {formats.usd(comparison.extra_usd)} more"
    )
    if not plan.is_within_limits:
        text += f", and it is {fit(plan)} at the high end"
    if comparison.is_tie:
        text += (
            ". Each of the two costs lies within the other's interval, so this is a tie: neither is known "
            "to be cheaper"
        )
    return f"{text}."


def _ties(answer: Recommendation, winner: Plan) -> str:
    tied = [one for one in answer.plans if one.is_tied_with_best]
    parts = []
    if tied:
        names = dict.fromkeys(devices(one) for one in tied)
        more = len(names) - NAMED_TIES
        shown = ", ".join(list(names)[:NAMED_TIES]) + (f" and {more} more" if more > 0 else "")
        parts.append(
            f"{len(tied)} other {'plans' if len(tied) > 1 else 'plan'} cannot be told apart from it in "
            f"cost ({shown})."
        )
    if winner.tied_configs:
        others = "; ".join(configuration(one) for one in winner.tied_configs[:2])
        parts.append(f"On the same devices it ties with {others}; the simpler configuration is taken.")
    return " ".join(parts)


def _what_would_have_to_give(answer: Recommendation, plan: Plan, short: Shortfall) -> str:
    target = answer.target
    gives = []
    if short.budget_usd is not None:
        gives.append(f"raise the budget to {formats.usd_up(short.budget_usd)}")
    if short.deadline_s is not None:
        gives.append(f"extend the deadline to {formats.duration_up(short.deadline_s)}")
    fewer = (
        f"or train at most {formats.whole(short.samples)} of the {formats.whole(target.samples)} samples"
        if short.samples
        else "and no number of samples fits, since the instances are not even ready in time or for that money"
    )
    hint = (
        " In expectation it does fit; only the high end does not, so a measurement on that device may "
        "settle it."
        if short.is_within_at_expected
        else ""
    )
    return (
        f"No plan keeps {limits(answer)} at {formats.percent(answer.confidence)} confidence. The nearest is "
        f"{rental(plan)} ({place(plan)}): {formats.usd(plan.total_usd.expected)} (up to "
        f"{formats.usd(plan.total_usd.high)}) with the sweep, in "
        f"{formats.duration(plan.duration_s.expected)} (up to {formats.duration(plan.duration_s.high)}). "
        f"To make it fit, {' and '.join(gives)}, {fewer}.{hint}"
    )


def _why_no_plan(answer: Recommendation) -> str:
    if not answer.offer_count:
        return "The catalog has no offers."
    counts = "; ".join(f"{one.offer_count} {one.reason}" for one in answer.set_aside)
    text = f"None of the {answer.offer_count} offers in the catalog carries a plan: {counts}."
    least = answer.least_memory
    if least is not None and least.needed_bytes is not None:
        text += (
            f" The nearest to fitting needs {formats.size(least.needed_bytes)} per worker at the high end, "
            f"on {formats.size(least.memory_bytes)} of memory."
        )
    return text


def _not_measured(answer: Recommendation) -> str:
    """The first warning. A measured GPU that is not the winner's is said by the plan's basis."""
    if answer.is_gpu_measured or not any(one.hardware.gpu.kind is DeviceKind.GPU for one in answer.plans):
        return ""
    on = f" on {', '.join(answer.measured_gpus)} and" if answer.measured_gpus else ""
    text = (
        f"No GPU was measured. Every GPU figure is predicted from trials{on} the chips' data sheets, "
        "with wide intervals."
        if answer.measured_gpus
        else "Nothing was measured. Every figure is predicted from the operations of one step and the chips' "
        "data sheets, with wide intervals."
    )
    return f"{text} {trial_advice(answer.useful_trial)}" if answer.useful_trial else text


def _stale(stale: StalePrices | None) -> str:
    if stale is None:
        return ""
    parts = (
        f"{stale.on_demand_count} on-demand or reserved prices are over 30 days old"
        if stale.on_demand_count
        else "",
        f"{stale.spot_count} spot prices are over a day old" if stale.spot_count else "",
    )
    return (
        f"{' and '.join(one for one in parts if one)} (the oldest from {formats.day(stale.oldest)}): check "
        "the price before renting."
    )
