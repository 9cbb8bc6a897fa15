"""The answer in words, the same in every output: numbers from the report, rounding from formats."""

from __future__ import annotations

from planner.estimate.values import Basis, Estimate
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats
from planner.reports.labels import configuration, rental
from planner.reports.renting import besides_steps
from planner.reports.report import Report

BASIS_WORDS = {
    Basis.MEASURED: "measured with this configuration on this device type and count",
    Basis.INTERPOLATED: "interpolated between measurements on this device type and count",
    Basis.PREDICTED: "predicted; not measured on this device type and count",
}
BASIS_NOTES = (
    (Basis.MEASURED, "this configuration ran on this device type and count"),
    (Basis.INTERPOLATED, "computed between measurements on this device type and count"),
    (Basis.PREDICTED, "carried over from other devices, or computed from the operations of one step"),
)


def headline(answer: Recommendation) -> str:
    """What to rent, in one line."""
    if answer.winner is not None:
        return f"Rent {rental(answer.winner)}{'' if answer.measured_gpus else ', by the trace alone'}"
    if answer.nearest is not None:
        return f"Nothing fits {limits(answer)}"
    return "No offer can carry this run"


def best_of_each(answer: Recommendation) -> str:
    """What a table of plans shows of each device type and count."""
    return "The best plan" if answer.target.hour_value_usd else "The cheapest plan"


def limits(answer: Recommendation) -> str:
    """The budget and the deadline, as far as there are any."""
    target = answer.target
    parts = (
        f"a budget of {formats.usd_limit(target.budget_usd)}" if target.budget_usd is not None else "",
        f"a deadline of {formats.duration(target.deadline_s)}" if target.deadline_s is not None else "",
    )
    return " and ".join(one for one in parts if one) or "without limits"


def facts(report: Report, plan: Plan) -> tuple[tuple[str, str], ...]:
    """A plan's numbers by name, each with its interval and what it is held against."""
    answer = report.recommendation
    tokens, level = answer.target.tokens_per_sample, formats.percent(answer.confidence)

    def between(estimate: Estimate, show: formats.Show) -> str:
        return f"{show(estimate.expected)} ({level}: {formats.interval(estimate, show)})"

    deadline_s = answer.target.deadline_s
    deadline = f"; deadline {formats.duration(deadline_s)}" if deadline_s is not None else ""
    throughput = between(plan.throughput_per_s, lambda per_s: formats.rate(per_s, tokens))
    steps = f"{formats.whole(answer.target.step_count)} steps"
    return (
        ("cost", f"{between(plan.cost_usd, formats.usd)}{_against_budget(answer, plan)}"),
        ("time", f"{between(plan.duration_s, formats.duration)}{deadline}"),
        ("how sure", f"the speed is {BASIS_WORDS[plan.basis]}"),
        ("throughput", f"{throughput}; {steps} of {formats.duration(plan.step_time_s.expected)}"),
        ("configuration", configuration(plan.config)),
        ("memory", memory(plan)),
        *utilisation(report, plan),
        ("price", price(plan)),
        *besides_steps(plan),
    )


def utilisation(report: Report, plan: Plan) -> tuple[tuple[str, str], ...]:
    """The share of the devices' peak that this very configuration achieved; nothing where it is unknown."""
    shares = [
        one.peak_fraction
        for one in report.trials
        if one.outcome.config == plan.config and one.peak_fraction is not None
    ]
    if not shares:
        return ()
    peak = f"{formats.percent(shares[-1])} of the device's {plan.config.precision} peak, measured"
    return (("utilisation", f"{peak} (MFU: recomputation does not count)"),)


def memory(plan: Plan) -> str:
    """Peak against what a worker has."""
    peak = plan.peak_memory_bytes
    return (
        f"{formats.size(peak.expected)} of {formats.size(plan.memory_bytes)} for each worker, {peak.basis}; "
        f"up to {formats.size(peak.high)}, which leaves {formats.percent(plan.memory_headroom_fraction)}"
    )


def price(plan: Plan) -> str:
    """The price, its date and its source."""
    return (
        f"{formats.usd_per_hour(plan.price_usd_per_hour)} {plan.offer.pricing} on "
        f"{formats.day(plan.offer.as_of)}"
    )


def _against_budget(answer: Recommendation, plan: Plan) -> str:
    budget_usd = answer.target.budget_usd
    if budget_usd is None:
        return ""
    if not answer.sweep_usd:
        return f"; budget {formats.usd_limit(budget_usd)}"
    return (
        f"; {formats.usd(plan.total_usd.expected)} with the sweep's {formats.usd(answer.sweep_usd)}, of a "
        f"budget of {formats.usd_limit(budget_usd)}"
    )
