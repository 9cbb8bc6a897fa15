"""The command line: flags, and which command they go to. What a command does stands in planner/commands.

A command's module is imported when it is called, so that `planner --help` imports no torch, ray or optuna.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from catalogs.sources.registry import price_sources
from planner import options
from planner.flag_groups import (
    bill_flags,
    grouped,
    length_flags,
    offer_flags,
    price_roots,
    pricing_flags,
    target_flags,
)
from planner.given import BillFlags, Output, Pricing, SweepFlags
from planner.target import TargetFlags

app = typer.Typer(
    name="planner",
    help="Which GPU to rent and how to configure the run, before the money is spent.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

catalog_app = typer.Typer()
app.add_typer(catalog_app, name="catalog")


@app.command()
@grouped(target=target_flags, pricing=pricing_flags, bill=bill_flags)
def sweep(
    context: typer.Context,
    model: options.ModelFile,
    target: TargetFlags,
    address: options.Address = None,
    wait: options.Wait = "10m",
    max_trials: options.MaxTrials = 40,
    max_minutes: options.MaxMinutes = 60.0,
    sweep_budget: options.SweepBudget = None,
    is_compile_allowed: options.Compile = None,
    checkpoint_dir: options.CheckpointDirectory = None,
    from_checkpoint: options.FromCheckpoint = None,
    *,
    pricing: Pricing,
    storage: options.Storage = None,
    study: options.StudyOption = None,
    out: options.Out = Path("planner-report"),
    json: options.Json = False,
    submit: options.Submit = False,
    bill: BillFlags,
) -> None:
    """Measure your model, search, price, and say what to rent."""
    output = Output(storage=storage, out=out, is_json=json)
    if submit:
        from planner.commands.submit import run as submit_sweep

        raise typer.Exit(submit_sweep(model, study, address, context, output))
    from trials.check import checking
    from trials.model_file.source import hash_workload

    flags = SweepFlags(
        model=model,
        address=address,
        wait=wait,
        max_trials=max_trials,
        max_minutes=max_minutes,
        sweep_budget_usd=sweep_budget,
        is_compile_allowed=is_compile_allowed,
        checkpoint_directory=checkpoint_dir,
        from_checkpoint=from_checkpoint,
        study=study,
    )
    with checking(
        hash_workload(model)
    ) as check:  # a process of its own: it need not wait for what is imported
        from planner.commands.sweep import run as run_sweep

        code = run_sweep(flags, check, target, replace(pricing, bill=bill), output)
    raise typer.Exit(code)


@app.command()
def job(
    job_id: options.JobId,
    address: options.Address = None,
    storage: options.Storage = None,
    out: options.Out = Path("planner-report"),
    json: options.Json = False,
) -> None:
    """Follow a submitted sweep again and bring its study and report home."""
    from planner.commands.submit import come_back

    raise typer.Exit(come_back(job_id, address, Output(storage=storage, out=out, is_json=json)))


@app.command()
def check(model: options.ModelFile) -> None:
    """Run one step of your model on CPU and say what was found."""
    from planner.commands import check as command

    raise typer.Exit(command.run(model))


@app.command()
@grouped(target=target_flags, pricing=pricing_flags, bill=bill_flags)
def report(
    study: options.StudyArgument,
    target: TargetFlags,
    pricing: Pricing,
    storage: options.Storage = None,
    out: options.Out = Path("planner-report"),
    json: options.Json = False,
    *,
    bill: BillFlags,
) -> None:
    """Price what a study measured again, for another budget, deadline or catalog. Needs no GPU."""
    from planner.commands import report as command

    output = Output(storage=storage, out=out, is_json=json)
    raise typer.Exit(command.run(study, target, replace(pricing, bill=bill), output))


@app.command()
@grouped(target=target_flags, pricing=pricing_flags, bill=bill_flags)
def why(
    study: options.StudyArgument,
    gpu: options.GpuName,
    target: TargetFlags,
    pricing: Pricing,
    storage: options.Storage = None,
    json: options.Json = False,
    *,
    bill: BillFlags,
) -> None:
    """Say what would have to change for a GPU type to win: price, speed, batch, scaling or memory."""
    from planner.commands import why as command

    output = Output(storage=storage, out=Path(), is_json=json)
    raise typer.Exit(command.run(study, gpu, target, replace(pricing, bill=bill), output))


@app.command()
@grouped(target=length_flags, pricing=pricing_flags, bill=bill_flags)
def estimate(
    study_or_model: options.StudyOrModel,
    gpu: options.OneGpu,
    gpus: options.GpuCount = 1,
    *,
    target: TargetFlags,
    pricing: Pricing,
    storage: options.Storage = None,
    bill: BillFlags,
) -> None:
    """Predict speed and memory on one GPU type: from a study, or from a model file's trace alone."""
    from planner.commands import estimate as command

    output = Output(storage=storage, out=Path(), is_json=False)
    raise typer.Exit(command.run(study_or_model, gpu, gpus, target, replace(pricing, bill=bill), output))


@app.command()
@grouped(target=target_flags, pricing=pricing_flags, bill=bill_flags)
def launch_files(
    study: options.StudyArgument,
    plan: options.PlanRank = None,
    directory: options.LaunchDirectory = Path("planner-launch"),
    *,
    target: TargetFlags,
    pricing: Pricing,
    storage: options.Storage = None,
    bill: BillFlags,
) -> None:
    """Write a plan as files that start it: torchrun, Ray job, KubeRay, SkyPilot, dstack."""
    from planner.commands import launch_files as command

    output = Output(storage=storage, out=directory, is_json=False)
    raise typer.Exit(command.run(study, plan, target, replace(pricing, bill=bill), output))


@app.command()
def verify(
    study: options.StudyArgument,
    directory: options.LaunchDirectory = Path("planner-launch"),
    log: options.RunLog = None,
    is_measured: options.Measure = False,
    address: options.Address = None,
    wait: options.Wait = "10m",
    catalog: options.Catalog = None,
    price: options.Prices = None,
    storage: options.Storage = None,
    json: options.Json = False,
) -> None:
    """Say whether a run that was launched keeps to its plan, and what the bill will be now."""
    from planner.commands import verify as command

    flags = command.VerifyFlags(
        directory=directory, log=log, is_measured=is_measured, address=address, wait=wait
    )
    pricing = offer_flags(catalog=catalog, price=price, reserved=True)
    raise typer.Exit(command.run(study, flags, pricing, Output(storage=storage, out=directory, is_json=json)))


@app.command()
def studies(storage: options.Storage = None) -> None:
    """List the studies and what they hold."""
    from planner.commands import studies as command

    raise typer.Exit(command.run(storage))


@catalog_app.callback(invoke_without_command=True)
@grouped(pricing=offer_flags)
def catalog(
    context: typer.Context,
    gpus: options.GpusOnly = False,
    history: options.History = None,
    *,
    pricing: Pricing,
) -> None:
    """List the offers, or the GPUs, that the planner knows; `planner catalog refresh` fetches new prices."""
    if context.invoked_subcommand is not None:
        return
    from planner.commands import catalog as command

    raise typer.Exit(command.run(pricing, is_gpus=gpus, history=history))


@catalog_app.command(
    "refresh",
    help="Read the providers' published prices, check them, and use them from now on: from "
    f"{' and '.join(source.title for source in price_sources())}.",
)
@grouped(roots=price_roots)
def catalog_refresh(roots: dict[str, str], provider: options.Providers = None) -> None:
    """Read published prices; the help names the sources that there are."""
    from planner.commands import catalog_refresh as command

    raise typer.Exit(command.run(roots, tuple(provider or ())))
