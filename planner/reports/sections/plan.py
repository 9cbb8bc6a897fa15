"""The recommended plan in full: cost, time, configuration, memory, price, checkpoints, energy."""

from __future__ import annotations

from planner.estimate.values import Estimate
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats, labels
from planner.reports.besides import besides_steps
from planner.reports.choices import price_age
from planner.reports.content import Field, Fields, Section
from planner.reports.report import Report
from planner.reports.sections.answer import BASIS_WORDS


def section(report: Report) -> Section:
    """Of the winner, or of the nearest plan where nothing fits."""
    answer = report.recommendation
    best = answer.best
    if best is None:
        return Section(title="", blocks=())
    title = "The plan in full" if answer.winner else "The nearest plan in full"
    rows = tuple(Field(name=name, text=text) for name, text in facts(report, best))
    return Section(title=title, blocks=(Fields(rows=rows),))


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
        ("basis", f"speed {BASIS_WORDS[plan.basis]}"),
        ("throughput", f"{throughput}; {steps} of {formats.duration(plan.step_time_s.expected)}"),
        ("configuration", labels.configuration(plan.config)),
        ("memory", _memory(plan)),
        *_utilisation(report, plan),
        ("price", _price(report, plan)),
        *besides_steps(plan),
    )


def _utilisation(report: Report, plan: Plan) -> tuple[tuple[str, str], ...]:
    """The share of the devices' peak that this very configuration achieved; nothing where it is unknown."""
    shares = [
        one.peak_fraction
        for one in report.trials
        if one.outcome.config == plan.config and one.peak_fraction is not None
    ]
    if not shares:
        return ()
    peak = f"{formats.percent(shares[-1])} of the device's {plan.config.precision} peak, measured"
    return (("MFU", f"{peak} (model FLOPs utilisation: recomputation does not count)"),)


def _memory(plan: Plan) -> str:
    """Peak against what a worker has."""
    peak = plan.peak_memory_bytes
    return (
        f"peak {formats.size(peak.expected)} of {formats.size(plan.memory_bytes)} for each worker, "
        f"{peak.basis}; up to {formats.size(peak.high)}, which leaves "
        f"{formats.percent(plan.memory_headroom_fraction)} free"
    )


def _price(report: Report, plan: Plan) -> str:
    """The price and its date; that it is old, where it is."""
    age = price_age(plan, report.generated_at.date())
    old = f", {age}: check it before renting; `planner catalog refresh` fetches today's prices" if age else ""
    return (
        f"{formats.usd_per_hour(plan.price_usd_per_hour)} {plan.offer.pricing} on "
        f"{formats.day(plan.offer.as_of)}{old}"
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
