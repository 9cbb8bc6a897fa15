"""The command line: flags, and which command they go to. What a command does stands in planner/commands.

A command's module is imported when it is called, so that `planner --help` imports no torch, ray or optuna.
"""

from __future__ import annotations

from pathlib import Path

import typer

from planner import options as given
from planner.flag_groups import with_bill
from planner.target import TargetFlags, check_money, parse_duration_s

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
@with_bill
def sweep(
    context: typer.Context,
    model: given.ModelFile,
    budget: given.Budget = None,
    deadline: given.Deadline = None,
    hour_value: given.HourValue = None,
    samples: given.Samples = None,
    epochs: given.Epochs = None,
    tokens: given.Tokens = None,
    global_batch_size: given.GlobalBatchSize = None,
    address: given.Address = None,
    wait: given.Wait = "10m",
    max_trials: given.MaxTrials = 40,
    max_minutes: given.MaxMinutes = 60.0,
    sweep_budget: given.SweepBudget = None,
    is_compile_allowed: given.Compile = None,
    checkpoint_dir: given.CheckpointDirectory = None,
    catalog: given.Catalog = None,
    price: given.Prices = None,
    provider: given.Providers = None,
    region: given.Regions = None,
    gpu: given.Gpus = None,
    spot: given.Spot = None,
    reserved: given.Reserved = False,
    confidence: given.Confidence = 0.9,
    provisioning_minutes: given.ProvisioningMinutes = 5.0,
    storage: given.Storage = None,
    study: given.StudyOption = None,
    out: given.Out = Path("planner-report"),
    json: given.Json = False,
    submit: given.Submit = False,
    *,
    bill: given.BillFlags,
) -> None:
    """Measure your model, search, price, and say what to rent."""
    output = given.Output(storage=storage, out=out, is_json=json)
    if submit:
        from planner.commands.submit import run as submit_sweep

        raise typer.Exit(submit_sweep(model, address, context, output))
    from planner.commands.sweep import run as run_sweep

    raise typer.Exit(
        run_sweep(
            given.SweepFlags(
                model=model,
                address=address,
                wait=wait,
                max_trials=max_trials,
                max_minutes=max_minutes,
                sweep_budget_usd=sweep_budget,
                is_compile_allowed=is_compile_allowed,
                checkpoint_directory=checkpoint_dir,
                study=study,
            ),
            _target(samples, epochs, tokens, global_batch_size, budget, deadline, hour_value),
            _pricing(
                catalog, price, provider, region, gpu, spot, reserved, confidence, provisioning_minutes, bill
            ),
            output,
        )
    )


@app.command()
def job(
    job_id: given.JobId,
    address: given.Address = None,
    storage: given.Storage = None,
    out: given.Out = Path("planner-report"),
    json: given.Json = False,
) -> None:
    """Follow a submitted sweep again and bring its study and report home."""
    from planner.commands.submit import come_back

    raise typer.Exit(come_back(job_id, address, given.Output(storage=storage, out=out, is_json=json)))


@app.command()
def check(model: given.ModelFile) -> None:
    """Run one step of your model on CPU and say what was found."""
    from planner.commands import check as command

    raise typer.Exit(command.run(model))


@app.command()
@with_bill
def report(
    study: given.StudyArgument,
    budget: given.Budget = None,
    deadline: given.Deadline = None,
    hour_value: given.HourValue = None,
    samples: given.Samples = None,
    epochs: given.Epochs = None,
    tokens: given.Tokens = None,
    global_batch_size: given.GlobalBatchSize = None,
    catalog: given.Catalog = None,
    price: given.Prices = None,
    provider: given.Providers = None,
    region: given.Regions = None,
    gpu: given.Gpus = None,
    spot: given.Spot = None,
    reserved: given.Reserved = False,
    confidence: given.Confidence = 0.9,
    provisioning_minutes: given.ProvisioningMinutes = 5.0,
    storage: given.Storage = None,
    out: given.Out = Path("planner-report"),
    json: given.Json = False,
    *,
    bill: given.BillFlags,
) -> None:
    """Price what a study measured again, for another budget, deadline or catalog. Needs no GPU."""
    from planner.commands import report as command

    raise typer.Exit(
        command.run(
            study,
            _target(samples, epochs, tokens, global_batch_size, budget, deadline, hour_value),
            _pricing(
                catalog, price, provider, region, gpu, spot, reserved, confidence, provisioning_minutes, bill
            ),
            given.Output(storage=storage, out=out, is_json=json),
        )
    )


@app.command()
@with_bill
def why(
    study: given.StudyArgument,
    gpu: given.GpuName,
    budget: given.Budget = None,
    deadline: given.Deadline = None,
    hour_value: given.HourValue = None,
    samples: given.Samples = None,
    epochs: given.Epochs = None,
    tokens: given.Tokens = None,
    global_batch_size: given.GlobalBatchSize = None,
    catalog: given.Catalog = None,
    price: given.Prices = None,
    provider: given.Providers = None,
    region: given.Regions = None,
    spot: given.Spot = None,
    reserved: given.Reserved = False,
    confidence: given.Confidence = 0.9,
    provisioning_minutes: given.ProvisioningMinutes = 5.0,
    storage: given.Storage = None,
    *,
    bill: given.BillFlags,
) -> None:
    """Say what would have to change for a GPU type to win: price, speed, batch, scaling or memory."""
    from planner.commands import why as command

    raise typer.Exit(
        command.run(
            study,
            gpu,
            _target(samples, epochs, tokens, global_batch_size, budget, deadline, hour_value),
            _pricing(
                catalog, price, provider, region, None, spot, reserved, confidence, provisioning_minutes, bill
            ),
            given.Output(storage=storage, out=Path(), is_json=False),
        )
    )


@app.command()
@with_bill
def estimate(
    study_or_model: given.StudyOrModel,
    gpu: given.OneGpu,
    gpus: given.GpuCount = 1,
    samples: given.Samples = None,
    epochs: given.Epochs = None,
    tokens: given.Tokens = None,
    global_batch_size: given.GlobalBatchSize = None,
    catalog: given.Catalog = None,
    price: given.Prices = None,
    provider: given.Providers = None,
    region: given.Regions = None,
    spot: given.Spot = None,
    reserved: given.Reserved = False,
    confidence: given.Confidence = 0.9,
    provisioning_minutes: given.ProvisioningMinutes = 5.0,
    storage: given.Storage = None,
    *,
    bill: given.BillFlags,
) -> None:
    """Predict speed and memory on one GPU type: from a study, or from a model file's trace alone."""
    from planner.commands import estimate as command

    raise typer.Exit(
        command.run(
            study_or_model,
            gpu,
            gpus,
            _target(samples, epochs, tokens, global_batch_size, None, None),
            _pricing(
                catalog, price, provider, region, None, spot, reserved, confidence, provisioning_minutes, bill
            ),
            given.Output(storage=storage, out=Path(), is_json=False),
        )
    )


@app.command()
@with_bill
def launch_files(
    study: given.StudyArgument,
    plan: given.PlanRank = None,
    directory: given.LaunchDirectory = Path("planner-launch"),
    hour_value: given.HourValue = None,
    catalog: given.Catalog = None,
    price: given.Prices = None,
    provider: given.Providers = None,
    region: given.Regions = None,
    gpu: given.Gpus = None,
    spot: given.Spot = None,
    reserved: given.Reserved = False,
    confidence: given.Confidence = 0.9,
    provisioning_minutes: given.ProvisioningMinutes = 5.0,
    storage: given.Storage = None,
    *,
    bill: given.BillFlags,
) -> None:
    """Write a plan as files that start it: torchrun, Ray job, KubeRay, SkyPilot, dstack."""
    from planner.commands import launch_files as command

    pricing = _pricing(
        catalog, price, provider, region, gpu, spot, reserved, confidence, provisioning_minutes, bill
    )
    output = given.Output(storage=storage, out=directory, is_json=False)
    check_money("--hour-value", hour_value, is_zero_allowed=True)
    raise typer.Exit(command.run(study, plan, pricing, output, directory, hour_value))


@app.command()
def verify(
    study: given.StudyArgument,
    directory: given.LaunchDirectory = Path("planner-launch"),
    log: given.RunLog = None,
    is_measured: given.Measure = False,
    address: given.Address = None,
    wait: given.Wait = "10m",
    catalog: given.Catalog = None,
    price: given.Prices = None,
    storage: given.Storage = None,
    json: given.Json = False,
) -> None:
    """Say whether a run that was launched keeps to its plan, and what the bill will be now."""
    from planner.commands import verify as command

    flags = command.VerifyFlags(
        directory=directory, log=log, is_measured=is_measured, address=address, wait=wait
    )
    pricing = _pricing(catalog, price, None, None, None, None, True, 0.9, 5.0, given.BillFlags())
    raise typer.Exit(
        command.run(study, flags, pricing, given.Output(storage=storage, out=directory, is_json=json))
    )


@app.command()
def studies(storage: given.Storage = None) -> None:
    """List the studies and what they hold."""
    from planner.commands import studies as command

    raise typer.Exit(command.run(storage))


@catalog_app.callback(invoke_without_command=True)
def catalog(
    context: typer.Context,
    gpus: given.GpusOnly = False,
    catalog: given.Catalog = None,
    price: given.Prices = None,
    provider: given.Providers = None,
    region: given.Regions = None,
    gpu: given.Gpus = None,
    spot: given.Spot = None,
    reserved: given.Reserved = False,
) -> None:
    """List the offers, or the GPUs, that the planner knows; `planner catalog refresh` fetches new prices."""
    if context.invoked_subcommand is not None:
        return
    from planner.commands import catalog as command

    pricing = _pricing(catalog, price, provider, region, gpu, spot, reserved, 0.9, 0.0, given.BillFlags())
    raise typer.Exit(command.run(pricing, gpus))


@catalog_app.command("refresh")
def catalog_refresh(
    skypilot: given.SkyPilotRoot = None,
    gpuhunt: given.GpuhuntRoot = None,
    provider: given.Providers = None,
) -> None:
    """Read the providers' published prices, check them, and use them from now on."""
    from planner.commands import catalog_refresh as command

    raise typer.Exit(command.run(skypilot, gpuhunt, tuple(provider or ())))


def _target(
    samples: int | None,
    epochs: float | None,
    tokens: float | None,
    global_batch_size: int | None,
    budget_usd: float | None,
    deadline: str | None,
    hour_value_usd: float | None = None,
) -> TargetFlags:
    check_money("--budget", budget_usd)
    check_money("--hour-value", hour_value_usd, is_zero_allowed=True)
    return TargetFlags(
        samples=samples,
        epochs=epochs,
        tokens=tokens,
        global_batch_size=global_batch_size,
        budget_usd=budget_usd,
        deadline_s=None if deadline is None else parse_duration_s(deadline, "--deadline"),
        hour_value_usd=hour_value_usd,
    )


def _pricing(
    catalog: Path | None,
    price: list[str] | None,
    provider: list[str] | None,
    region: list[str] | None,
    gpu: list[str] | None,
    spot: bool | None,
    reserved: bool,
    confidence: float,
    provisioning_minutes: float,
    bill: given.BillFlags,
) -> given.Pricing:
    return given.Pricing(
        catalog=catalog,
        prices=tuple(price or ()),
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        gpus=tuple(gpu or ()),
        is_spot=spot,
        is_reserved=reserved,
        confidence=confidence,
        provisioning_s=provisioning_minutes * 60,
        bill=bill,
    )
