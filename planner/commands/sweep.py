"""`planner sweep`: check the model, find the devices, search, and publish the report."""

from __future__ import annotations

import contextlib
import math
import platform
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

from planner.commands.answer import publish, report_of
from planner.commands.prices import Prices, read_prices
from planner.cost import device_usd_per_hour
from planner.errors import PlannerError
from planner.exits import Exit
from planner.fleet import Fleet, fleet_of
from planner.live import Watch, announce, say
from planner.options import Output, Pricing, SweepFlags
from planner.reports import formats
from planner.search import Market, Search
from planner.space import Exclusion, Knobs, configs_for, exclusions, worker_counts
from planner.storage import default_storage_url, open_storage
from planner.store import Study, open_study
from planner.sweep import SWEEP_BUDGET_FRACTION, Limits, RunTrial, Stop, Sweep
from planner.target import Target, TargetFlags, check_money, parse_duration_s, resolve_target
from trials.check import check
from trials.cluster.attach import attach
from trials.cluster.discovery import discover
from trials.devices import version_problems
from trials.errors import TrialsError
from trials.extras import Extras
from trials.model_file.source import hash_workload
from trials.profile import WorkloadProfile
from trials.runner import RunnerSettings, open_runner
from trials.trial import TrialConfig


def run(flags: SweepFlags, target: TargetFlags, pricing: Pricing, output: Output) -> int:
    """The whole sweep; whatever ends it early, the report has what there is."""
    wait_s = parse_duration_s(flags.wait, "--wait", is_zero_allowed=True)
    limits = _limits(flags, target.budget_usd)
    prices = read_prices(pricing)
    workload = hash_workload(flags.model)
    url = output.storage or default_storage_url()
    open_storage(
        url, is_created=True
    )  # a storage that cannot be used is said before the check takes its time
    say(f"checking {flags.model} by one step on CPU")
    profile = check(workload)
    wanted = resolve_target(target, profile, str(flags.model))
    stop = Stop()
    with open_study(url, workload, flags.study).held() as study:
        with attach(flags.address, workload) as cluster:
            fleet = _fleet(prices, cluster.notes)
            configs, excluded = _configs(fleet, prices, profile, wanted, flags)
            study.remember(profile=profile, target=wanted, notes=fleet.notes, exclusions=excluded)
            search = _search(study, fleet, prices, profile, wanted, configs)
            watch = Watch(limits)
            sweep = Sweep(search=search, study=study, limits=limits, watch=watch, stop=stop)
            say(announce(sweep.expected(), limits))
            if wanted.hour_value_usd:
                value = formats.usd(wanted.hour_value_usd)
                say(f"what a run costs has {value} for each hour of waiting in it")
            with (
                open_runner(
                    workload, fleet.groups, _runner_settings(fleet, search, flags, wait_s)
                ) as run_trial,
                _ending_on_interrupt(stop),
                watch.shown(),
            ):
                problem = _run(sweep, run_trial)
        code = publish(report_of(study, wanted, prices), output)
    if problem is not None:
        raise problem
    return Exit.INTERRUPTED if stop.is_asked else code


def _run(sweep: Sweep, run_trial: RunTrial) -> PlannerError | TrialsError | None:
    """Sweep to the end; what ends it early comes back, so that there is a report all the same."""
    try:
        say(f"sweep ended: {sweep.run(run_trial)}")
    except (PlannerError, TrialsError) as problem:
        return problem
    return None


def _runner_settings(fleet: Fleet, search: Search, flags: SweepFlags, wait_s: float) -> RunnerSettings:
    """The groups are started with as many workers as any trial will want, so that none has to be replaced."""
    return RunnerSettings(
        worker_counts={group.gpu: search.worker_count_max(group.gpu) for group in fleet.groups},
        extras=Extras(
            is_checkpoint_timed=True,
            are_links_probed=True,
            checkpoint_directory=flags.checkpoint_directory
            and str(Path(flags.checkpoint_directory).absolute()),
        ),
        wait_s=wait_s,
        on_wait=say,
    )


def _limits(flags: SweepFlags, budget_usd: float | None) -> Limits:
    check_money("--sweep-budget", flags.sweep_budget_usd)
    if not 0 < flags.max_minutes < math.inf:
        raise PlannerError(f"--max-minutes {flags.max_minutes:g}: must be more than zero")
    max_usd = flags.sweep_budget_usd
    if max_usd is None and budget_usd is not None:
        max_usd = budget_usd * SWEEP_BUDGET_FRACTION
    return Limits(max_trials=flags.max_trials, max_s=flags.max_minutes * 60, max_usd=max_usd)


def _fleet(prices: Prices, notes: tuple[str, ...]) -> Fleet:
    """The cluster's devices, after all nodes were found to run the same versions."""
    found = list(notes)
    nodes = discover(on_problem=found.append)
    problems = version_problems(nodes)
    if problems is not None:
        raise PlannerError(f"the nodes must run the same Ray, Python minor version and torch:\n{problems}")
    fleet = fleet_of(nodes, prices.gpus, platform.machine())
    for note in (*found, *fleet.notes):
        say(note)
    return replace(fleet, notes=(*found, *fleet.notes))


def _search(
    study: Study,
    fleet: Fleet,
    prices: Prices,
    profile: WorkloadProfile,
    target: Target,
    configs: tuple[TrialConfig, ...],
) -> Search:
    market = Market(
        target=target,
        offers=prices.admitted,
        gpus=prices.gpus,
        groups=fleet.groups,
        usd_per_hour={
            group.gpu: device_usd_per_hour(prices.offers, prices.gpus[group.gpu], group.nodes[0].cpu_count)
            for group in fleet.groups
        },
        confidence=prices.confidence,
        stated=prices.stated,
    )
    search = Search(study, configs, market, profile)
    lost = search.settle()
    if lost:
        say(f"{lost} trial(s) of an earlier sweep were cut off before they ended and will be run again")
    return search


def _configs(
    fleet: Fleet, prices: Prices, profile: WorkloadProfile, target: Target, flags: SweepFlags
) -> tuple[tuple[TrialConfig, ...], tuple[Exclusion, ...]]:
    """Every configuration that can be tried here, and what is left out; each reason once."""
    configs: list[TrialConfig] = []
    excluded: list[Exclusion] = []
    wanted = [one for one in fleet.groups if not prices.filters.gpus or one.gpu in prices.filters.gpus]
    for group in wanted or fleet.groups:  # none of the types asked for is here: what is here predicts them
        gpu = prices.gpus[group.gpu]
        has_compiler = all(node.has_compiler is not False for node in group.nodes)
        knobs = Knobs(is_compile_allowed=flags.is_compile_allowed, has_compiler=has_compiler)
        excluded += exclusions(gpu, profile, knobs)
        for count in worker_counts(gpu, group.worker_count_max, target):
            node_count = group.node_count_for(count)
            if node_count:
                configs += configs_for(target, gpu, count, node_count, profile, knobs)
    if not configs:
        names = ", ".join(group.gpu for group in fleet.groups)
        raise PlannerError(
            f"the global batch size {target.global_batch_size} leaves no configuration to try on {names}"
        )
    return tuple(configs), tuple(dict.fromkeys(excluded))


@contextlib.contextmanager
def _ending_on_interrupt(stop: Stop) -> Iterator[None]:
    """The first Ctrl-C asks the sweep to end after the trial in flight, the second ends it at once."""

    def handle(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_asked:
            raise KeyboardInterrupt
        stop.is_asked = True
        say("ending after the trial in flight; Ctrl-C again ends at once (finished trials are saved)")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
