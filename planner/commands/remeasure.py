"""A plan's configuration measured once more, by the runner of the sweep."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from itertools import accumulate

from planner.cli_values import ClusterFlags
from planner.commands.prices import Prices
from planner.errors import PlannerError
from planner.fleet import fleet_of
from planner.live import say
from planner.verify.evidence import Evidence, Look
from planner.verify.run_plan import RunPlan
from trials.api import (
    SCHEDULE_FRACTION,
    Measurement,
    MeasureSettings,
    RunnerSettings,
    Workload,
    attach,
    discover,
    open_runner,
    version_problems,
)

MEASURED_STEPS = 24  # nearly twice as many as an alarm needs at least


def remeasure(run_plan: RunPlan, workload: Workload, prices: Prices, flags: ClusterFlags) -> Evidence:
    """What a trial of the plan's configuration says, on the cluster of ``flags`` or an embedded one."""
    config = run_plan.config
    with attach(flags.address, workload) as cluster:
        for note in cluster.notes:
            say(note)
        nodes = discover(on_problem=say)
        problems = version_problems(nodes)
        if problems is not None:
            raise PlannerError(f"the nodes must run the same Ray, Python and torch:\n{problems}")
        fleet = fleet_of(nodes, prices.gpus, platform.machine())
        settings = RunnerSettings(
            worker_counts={config.gpu: config.gpu_count},
            measure_settings=MeasureSettings(timed_min=MEASURED_STEPS),
            start_limit_s=flags.start_limit_s,
            schedule_limit_s=flags.start_limit_s * SCHEDULE_FRACTION,
            wait_s=flags.wait_s,
            on_wait=say,
        )
        with open_runner(workload, fleet.groups, settings) as run_trial:
            outcome = run_trial(config)
    if not isinstance(outcome, Measurement):
        raise PlannerError(f"the plan's configuration gave no measurement: {outcome.kind}: {outcome.reason}")
    evidence = Evidence(run_plan, warmup_steps=0)
    for look in looks_of(outcome):
        evidence.add(look)
    return evidence


def looks_of(measurement: Measurement) -> Iterator[Look]:
    """Every timed step as a look; where two accumulation counts were timed, steps of the larger, scaled."""
    series = max(measurement.series, key=lambda one: one.accumulation)
    scale = measurement.step_time_s / series.step_s
    times_s = [one * scale for one in series.step_times_s]
    for step, (time_s, end_s) in enumerate(zip(times_s, accumulate(times_s), strict=True), start=1):
        yield Look(begun_at_s=0.0, at_s=end_s, step=step, step_count=1, step_time_s=time_s)
