"""`planner sweep`: check the model, find the devices, search, and publish the report."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from planner.cli_values import OfferFlags, OutputFlags, SweepFlags
from planner.commands.answer import publish, report_of
from planner.commands.available_devices import AvailableDevices, find_devices
from planner.commands.cluster_watcher import ClusterWatcher
from planner.commands.first_answer import say_first_answer, traced_study
from planner.commands.prices import Prices, read_prices
from planner.errors import PlannerError
from planner.estimate.other_workloads import cross_workload_ratios
from planner.exits import Exit
from planner.interrupts import Interrupted, heard_by
from planner.live import LiveView, announce, say
from planner.reports import formats
from planner.search.market import Market
from planner.search.search import Search
from planner.search.state import SearchState
from planner.study.reading import read_peers
from planner.study.sources import notes_on_sources
from planner.study.storage import default_storage_url, open_storage
from planner.study.store import Study, open_study
from planner.sweep import SWEEP_BUDGET_FRACTION, Limits, RunTrial, Stop, Sweep
from planner.target import Target, TargetFlags, resolve_target
from trials.api import (
    SCHEDULE_FRACTION,
    Checking,
    Extras,
    RunnerSettings,
    TrialsError,
    WorkloadProfile,
    attach,
    open_runner,
)

_GRACE_S = 10.0  # for trials in flight, once a supervisor or a closing terminal asks


def run(
    flags: SweepFlags, check: Checking, target: TargetFlags, pricing: OfferFlags, output: OutputFlags
) -> int:
    """The whole sweep of what is being checked; whatever ends it early, the report has what there is."""
    limits = _limits(flags, target.budget_usd)
    _check_from_checkpoint(flags, target)
    prices = read_prices(pricing)
    workload = check.workload
    url = output.storage or default_storage_url()
    open_storage(url, is_created=True)  # one that cannot be used is said before the check is waited for
    say(f"checking {flags.model} by one step on CPU")
    stop = Stop()
    profile = check.first_step()
    wanted = resolve_target(target, profile, str(flags.model))
    extras = _extras(flags, wanted)
    with (
        open_study(url, workload, flags.study).held() as study,
        attach(flags.address, workload) as cluster,  # and then workers, while the step is traced
    ):
        here = find_devices(prices, profile, wanted, flags)
        notes = (*notes_on_sources(study), *cluster.notes, *here.notes)
        for note in notes:
            say(note)
        settings = runner_settings(here, flags, extras)
        watch = LiveView(limits)
        with open_runner(workload, here.groups, settings) as runner:
            if not study.trials():  # a sweep that goes on may have nothing left to try
                runner.start_early(min(here.configs, key=lambda one: one.gpu_count))
            profile = check.result()
            if not study.trials() and profile.traces:
                traced = traced_study(workload, profile, wanted, url)
                say_first_answer(report_of(traced, wanted, prices))
            study.remember(profile=profile, target=wanted, notes=notes, exclusions=here.exclusions)
            search = _search(study, here, prices, profile, wanted, extras)
            cluster_watcher = ClusterWatcher(
                find=lambda: find_devices(prices, profile, wanted, flags, ours=here.groups),
                search=search,
                runner=runner,
            )
            sweep = Sweep(
                search=search,
                study=study,
                limits=limits,
                watch=watch,
                stop=stop,
                held=runner.held,
                held_from_s=runner.held_from_s(),
                has_room=runner.has_room,
                look_around=cluster_watcher,
            )
            say(announce(sweep.expected(), limits))
            _say_what_counts(wanted)
            with heard_by(_ending_by(stop)):
                with watch.shown():
                    failed = _run(sweep, runner)
                # before the workers are ended, which may outlast what a supervisor grants
                published = publish(report_of(study, wanted, prices), output)
    if failed is not None:
        return failed
    return published if stop.signal_number is None else Exit(128 + stop.signal_number)


def _run(sweep: Sweep, run_trial: RunTrial) -> Exit | None:
    """Sweep to the end; an exit code where a problem ends it, so that there is a report all the same."""
    try:
        say(f"sweep ended: {sweep.run(run_trial)}")
    except (PlannerError, TrialsError) as problem:
        say(f"planner: {problem}")
        return Exit.BAD_INPUT
    return None


def runner_settings(here: AvailableDevices, flags: SweepFlags, extras: Extras) -> RunnerSettings:
    """The groups are started with as many workers as any trial will want, so that none has to be replaced."""
    return RunnerSettings(
        worker_counts=here.worker_counts,
        extras=extras,
        start_limit_s=flags.start_limit_s,
        schedule_limit_s=flags.start_limit_s * SCHEDULE_FRACTION,
        wait_s=flags.wait_s,
        on_wait=say,
    )


def _extras(flags: SweepFlags, target: Target) -> Extras:
    """What trials measure besides steps."""
    folder, weights = flags.checkpoint_directory, flags.from_checkpoint
    return Extras(
        is_checkpoint_timed=True,
        are_links_probed=True,
        checkpoint_directory=folder and str(Path(folder).absolute()),
        is_noise_measured=target.batch_range is not None,
        noise_checkpoint=None if weights is None else str(weights.absolute()),
    )


def _say_what_counts(wanted: Target) -> None:
    """What else than the configuration the search has a say in, or is to weigh."""
    if wanted.batch_range is not None:
        say(
            f"trials train batches of {wanted.global_batch_size}; what others from {wanted.batch_range.low} "
            f"to {wanted.batch_range.high} cost follows from the gradient noise"
        )
    if wanted.hour_value_usd:
        value = formats.usd(wanted.hour_value_usd)
        say(f"what a run costs has {value} for each hour of waiting in it")


def _check_from_checkpoint(flags: SweepFlags, target: TargetFlags) -> None:
    weights = flags.from_checkpoint
    if weights is None:
        return
    if target.batch_range is None:
        raise PlannerError(
            f"--from-checkpoint {weights}: is for choosing the batch size; give a range, "
            "--global-batch-size 256:4096"
        )
    if not weights.is_file():
        raise PlannerError(f"--from-checkpoint {weights}: no such file; name one with the model's state_dict")


def _limits(flags: SweepFlags, budget_usd: float | None) -> Limits:
    max_usd = flags.sweep_budget_usd
    if max_usd is None and budget_usd is not None:
        max_usd = budget_usd * SWEEP_BUDGET_FRACTION
    return Limits(max_trials=flags.max_trials, max_s=flags.max_s, max_usd=max_usd)


def _search(
    study: Study,
    here: AvailableDevices,
    prices: Prices,
    profile: WorkloadProfile,
    target: Target,
    extras: Extras,
) -> Search:
    market = Market(
        target=target,
        offers=prices.admitted,
        gpus=prices.gpus,
        groups=here.groups,
        usd_per_hour=here.usd_per_hour,
        confidence=prices.confidence,
        assumptions=prices.assumptions,
        cross_workload=cross_workload_ratios(read_peers(study), prices.gpus),
    )
    search = Search(SearchState(study, here.configs, market, profile), study, extras)
    lost = search.recover_orphans()
    if lost:
        say(f"{lost} trial(s) of an earlier sweep were cut off before they ended and will be run again")
    return search


def _ending_by(stop: Stop) -> Callable[[int], None]:
    """A listener that asks a sweep to end after the trials under way; a second Ctrl-C ends it at once."""

    def handle(number: int) -> None:
        if number == signal.SIGINT and stop.is_asked:
            raise Interrupted(number)
        if number == signal.SIGINT:
            stop.ask(number)
            say("ending after the trial in flight; Ctrl-C again ends at once (finished trials are saved)")
        elif not stop.is_bounded:
            stop.ask(number, grace_s=_GRACE_S)
            name = signal.Signals(number).name
            say(f"{name}: ending; what has not ended in {_GRACE_S:.0f} s is lost (finished trials are saved)")

    return handle
