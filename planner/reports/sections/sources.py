"""Where a report's numbers come from: the sweep, the machines, the catalog, the workload."""

from __future__ import annotations

from planner.estimate.values import Basis
from planner.plans.recommendation import StalePrices
from planner.reports import formats
from planner.reports.content import Field, Fields, Item, Items, Section
from planner.reports.models import JsonModel
from planner.reports.report import Report
from trials.api import Environment

BASIS_NOTES = (
    (Basis.MEASURED, "this configuration ran on this device type and count"),
    (Basis.INTERPOLATED, "computed between measurements on this device type and count"),
    (Basis.PREDICTED, "carried over from other devices, or computed from the operations of one step"),
)


class SweepJson(JsonModel):
    """What measuring took."""

    spent_usd: float | None
    wall_s: float | None
    stopped_because: str | None
    trial_count: int
    failure_count: int


class Data(JsonModel):
    """What measuring took, and what it had to say."""

    sweep: SweepJson
    notes: tuple[str, ...]


def section(report: Report) -> Section:
    """What the words for a number's basis mean, then the small print."""
    sweep = report.sweep
    lines = (*sweep_lines(report), *small_print(report))
    return Section(
        title="Sources",
        blocks=(
            Fields(rows=tuple(Field(name=one.value, text=text, basis=one) for one, text in BASIS_NOTES)),
            Items(rows=tuple(Item(text=one) for one in lines)),
        ),
        data=Data(
            sweep=SweepJson(
                spent_usd=sweep.spent_usd,
                wall_s=sweep.wall_s,
                stopped_because=sweep.stopped_because,
                trial_count=len(report.trials),
                failure_count=len(report.failures),
            ),
            notes=report.notes,
        ),
        is_small=True,
    )


def sweep_lines(report: Report) -> tuple[str, ...]:
    """What measuring took and why it ended."""
    sweep = report.sweep
    failed = len(report.failures)
    counts = formats.counted(len(report.trials), "trial") + (f" ({failed} failed)" if failed else "")
    cost = formats.usd(sweep.spent_usd) if sweep.spent_usd is not None else "at a cost unknown"
    wall = f" in {formats.duration(sweep.wall_s)}" if sweep.wall_s is not None else ""
    lines = [f"Sweep: {counts}{wall}, {cost} at catalog prices."]
    if sweep.stopped_because:
        lines.append(f"It ended: {sweep.stopped_because}.")
    return tuple(lines)


def small_print(report: Report) -> tuple[str, ...]:
    """Where everything comes from."""
    answer = report.recommendation
    environment = "; ".join(dict.fromkeys(place_measured(one) for one in report.environments))
    left_out = "; ".join(f"{one.reason} ({one.offer_count})" for one in answer.set_aside)
    lines = (
        f"Measured on {environment}." if environment else "",
        f"Offers: {answer.offer_count} in the catalog" + (f", left out: {left_out}." if left_out else "."),
        _stale(answer.stale_prices),
        *(f"{one}." if not one.endswith(".") else one for one in report.notes),
        f"Workload {report.workload.path} (sha256 {report.workload.sha256[:12]}), "
        f"{formats.count(report.profile.parameter_count)} parameters; study {report.study}; planner "
        f"{report.planner_version}, {formats.moment(report.generated_at)}.",
    )
    return tuple(one for one in lines if one)


def place_measured(environment: Environment) -> str:
    """Device, driver and versions."""
    parts = (
        environment.device_name,
        f"driver {environment.driver}" if environment.driver else "",
        f"CUDA {environment.cuda}" if environment.cuda else "",
        f"torch {environment.torch}",
        f"Ray {environment.ray}" if environment.ray else "",
        f"Python {environment.python}",
        f"{environment.host_cpu_count} host CPUs",
    )
    return ", ".join(one for one in parts if one)


def _stale(stale: StalePrices | None) -> str:
    if stale is None:
        return ""
    parts = (
        f"{formats.counted(stale.on_demand_count, 'on-demand or reserved price')} over 30 days old"
        if stale.on_demand_count
        else "",
        f"{formats.counted(stale.spot_count, 'spot price')} over a day old" if stale.spot_count else "",
    )
    return (
        f"Prices: {' and '.join(one for one in parts if one)}, the oldest from {formats.day(stale.oldest)}; "
        "`planner catalog refresh` fetches today's."
    )
