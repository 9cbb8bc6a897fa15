"""Where a report's numbers come from: the sweep, the machines, the catalog, the workload."""

from __future__ import annotations

from planner.reports import formats
from planner.reports.report import Report
from trials.trial import Environment


def sweep_lines(report: Report) -> tuple[str, ...]:
    """What measuring took and why it ended."""
    sweep = report.sweep
    failed = len(report.failures)
    counts = formats.counted(len(report.trials), "trial") + (f" ({failed} failed)" if failed else "")
    cost = formats.usd(sweep.spent_usd) if sweep.spent_usd is not None else "at a cost unknown"
    wall = f" in {formats.duration(sweep.wall_s)}" if sweep.wall_s is not None else ""
    lines = [f"Sweep: {counts}{wall}, {cost} at catalog prices."]
    if sweep.stopped_because:
        lines.append(f"It ended because: {sweep.stopped_because}.")
    return tuple(lines)


def small_print(report: Report) -> tuple[str, ...]:
    """Where everything comes from."""
    answer = report.recommendation
    environment = "; ".join(dict.fromkeys(place_measured(one) for one in report.environments))
    left_out = "; ".join(f"{one.reason} ({one.offer_count})" for one in answer.set_aside)
    lines = (
        f"Measured on {environment}." if environment else "",
        f"Offers: {answer.offer_count} in the catalog" + (f", left out: {left_out}." if left_out else "."),
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
