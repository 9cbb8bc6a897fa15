"""What the reader must know before acting, and which trial would make the answer surer."""

from __future__ import annotations

from catalogs.gpus import DeviceKind
from planner.plans.numerics_check import reference_of
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation, StalePrices
from planner.reports import formats
from planner.reports.batch_words import batch_problem
from planner.reports.firmness import settling_lines, trial_advice
from planner.reports.renting import lateness, unknown_interruptions
from planner.reports.report import Report
from planner.search.model_error import repeated_model_error


def first_warning(report: Report) -> str:
    """What is said before the answer: trials that failed, and that no GPU was measured; "" for neither."""
    found = (_failing(report), _not_measured(report.recommendation))
    return " ".join(one for one in found if one)


def warnings(report: Report) -> tuple[str, ...]:
    """What else the reader must know before acting."""
    answer = report.recommendation
    found = (
        *(f"{name} was measured, but no offer in the catalog has it." for name in answer.unpriced_gpus),
        *(one.message for one in report.slow_links),
        batch_problem(report),
        _stale(answer.stale_prices),
        _host_bound(answer.best),
        _unguarded(report),
        _disturbed(report),
        unknown_interruptions(answer.best) if answer.best else "",
        lateness(answer),
        "What the sweep cost is unknown, since its devices have no price; the budget is held against the "
        "run alone."
        if answer.sweep_usd is None and answer.target.budget_usd is not None
        else "",
    )
    return tuple(one for one in found if one)


def next_steps(report: Report) -> tuple[str, ...]:
    """The trials that would make the answer surer, but for the one that the first warning names."""
    answer = report.recommendation
    lines = settling_lines(answer)
    return lines[1:] if _not_measured(answer) else lines


def _not_measured(answer: Recommendation) -> str:
    """Where some GPU was measured, each plan's basis says whether its own was."""
    if answer.is_gpu_measured or not answer.plans:
        return ""
    if answer.measured_gpus:
        if all(one.hardware.gpu.kind is DeviceKind.CPU for one in answer.plans):
            return ""
        text = (
            f"No GPU was measured: every GPU figure is predicted from trials on "
            f"{', '.join(answer.measured_gpus)} and the chips' data sheets, with wide intervals."
        )
    else:
        text = (
            "Nothing was measured: every figure is predicted from the operations of one step and the chips' "
            "data sheets, with wide intervals."
        )
    return text if answer.useful_trial is None else f"{text} {trial_advice(answer.useful_trial)}"


def _failing(report: Report) -> str:
    """The model file's error that ended the sweep, or why no trial at all succeeded."""
    error = repeated_model_error([one.outcome for one in report.trials])
    if error is not None:
        return f"The model file failed twice in a row: {error.reason}. Mend it and sweep again."
    if report.measurements or not report.failures:
        return ""
    last = report.failures[-1]
    return f"No trial succeeded; the last one: {last.kind}: {last.reason}."


def _host_bound(plan: Plan | None) -> str:
    if plan is None or plan.host_fraction is None or not plan.is_host_bound:
        return ""
    return (
        f"The plan is host-bound: about {formats.percent(plan.host_fraction)} of its step on "
        f"{plan.offer.gpu} is expected to be the host's work of launching operations, so a faster GPU buys "
        "little and the machine's CPU decides; a larger micro batch or torch.compile would do more."
    )


def _disturbed(report: Report) -> str:
    best = report.recommendation.best
    own = [one for one in report.measurements if best is not None and one.config == best.config]
    if not own or not own[-1].disturbance:
        return ""
    return (
        f"The last trial of the plan's configuration was {own[-1].disturbance}, so its speed is less sure "
        "than the interval says: sweep again when nothing else uses the devices."
    )


def _unguarded(report: Report) -> str:
    best = report.recommendation.best
    if best is None or reference_of(best.config) == best.config:
        return ""
    arithmetic = (best.config.precision, best.config.is_compiled)
    if arithmetic in {(one.config.precision, one.config.is_compiled) for one in report.guards}:
        return ""
    name = best.config.precision + (" with torch.compile" if best.config.is_compiled else "")
    return (
        f"That the model trains in {name} as it does in fp32 is assumed: no trial "
        "compared their losses. Watch the loss of the first steps."
    )


def _stale(stale: StalePrices | None) -> str:
    if stale is None:
        return ""
    on_demand = formats.counted(stale.on_demand_count, "on-demand or reserved price")
    spot = formats.counted(stale.spot_count, "spot price")
    parts = (
        f"{on_demand} {_are(stale.on_demand_count)} over 30 days old" if stale.on_demand_count else "",
        f"{spot} {_are(stale.spot_count)} over a day old" if stale.spot_count else "",
    )
    return (
        f"{' and '.join(one for one in parts if one)} (the oldest from {formats.day(stale.oldest)}): check "
        "the price before renting; `planner catalog refresh` fetches new ones."
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
