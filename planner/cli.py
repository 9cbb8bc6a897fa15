"""The command line: which groups of flags a command takes, and where it goes; planner/commands does it.

A command's module is imported when it is called, so that `planner --help` imports no torch, ray or optuna.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import typer

from catalogs.sources.price_source import PriceSource
from catalogs.sources.registry import price_sources
from planner.cli_values import (
    CatalogFlags,
    ClusterFlags,
    EstimateFlags,
    JobFlags,
    LaunchFlags,
    ModelFlags,
    OfferFlags,
    OutputFlags,
    StudyFlags,
    SweepFlags,
    VerifyFlags,
    WhyFlags,
)
from planner.command_line import PlainCommand, PlainGroup, grouped
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.flags import TEXT, Flag
from planner.target import TargetFlags

app = typer.Typer(
    cls=PlainGroup,
    name="planner",
    help="Which GPU to rent and how to configure the run, before the money is spent.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

catalog_app = typer.Typer(cls=PlainGroup)
app.add_typer(catalog_app, name="catalog")


@app.command(cls=PlainCommand)
@grouped()
def sweep(
    context: typer.Context,
    target: TargetFlags,
    own: SweepFlags,
    offers: OfferFlags,
    output: OutputFlags,
    assumptions: CostAssumptions,
) -> None:
    """Run short trials of your model and say which GPU to rent and how to configure the run."""
    if own.is_submitted:
        from planner.commands.submit import run as submit_sweep

        raise typer.Exit(submit_sweep(own.model, own.study, own.address, context, output))
    from trials.api import checking, hash_workload

    with checking(
        hash_workload(own.model)
    ) as check:  # a process of its own: it need not wait for what is imported
        from planner.commands.sweep import run as run_sweep

        code = run_sweep(own, check, target, replace(offers, assumptions=assumptions), output)
    raise typer.Exit(code)


@app.command(cls=PlainCommand)
@grouped("wait_s", "start_limit_s")
def job(own: JobFlags, cluster: ClusterFlags, output: OutputFlags) -> None:
    """Follow a submitted sweep again and fetch its study and report."""
    from planner.commands.submit import come_back

    raise typer.Exit(come_back(own.job_id, cluster.address, output))


@app.command(cls=PlainCommand)
@grouped()
def check(own: ModelFlags) -> None:
    """Run one step of your model on CPU and say what was found."""
    from planner.commands import check as command

    raise typer.Exit(command.run(own.model))


@app.command(cls=PlainCommand)
@grouped()
def report(
    own: StudyFlags,
    target: TargetFlags,
    offers: OfferFlags,
    output: OutputFlags,
    assumptions: CostAssumptions,
) -> None:
    """Recommend again from what a study measured, for another budget, deadline or price. Needs no GPU."""
    from planner.commands import report as command

    raise typer.Exit(command.run(own.study, target, replace(offers, assumptions=assumptions), output))


@app.command(cls=PlainCommand)
@grouped("out")
def why(
    own: StudyFlags,
    gpu: WhyFlags,
    target: TargetFlags,
    offers: OfferFlags,
    output: OutputFlags,
    assumptions: CostAssumptions,
) -> None:
    """Say what would have to change for a GPU type to win: price, speed, batch size, scaling or memory."""
    from planner.commands import why as command

    raise typer.Exit(
        command.run(own.study, gpu.gpu, target, replace(offers, assumptions=assumptions), output)
    )


@app.command(cls=PlainCommand)
@grouped()
def estimate(
    own: EstimateFlags,
    target: TargetFlags,
    offers: OfferFlags,
    output: OutputFlags,
    assumptions: CostAssumptions,
) -> None:
    """Rank all GPUs, or detail one with --gpu, from a study or from a model file alone. Runs no trial."""
    from planner.commands import estimate as command

    raise typer.Exit(command.run(own, target, replace(offers, assumptions=assumptions), output))


@app.command(cls=PlainCommand)
@grouped("out", "is_json")
def launch_files(
    own: StudyFlags,
    launch: LaunchFlags,
    target: TargetFlags,
    offers: OfferFlags,
    output: OutputFlags,
    assumptions: CostAssumptions,
) -> None:
    """Write files that start a plan, for torchrun, Ray Jobs, KubeRay, SkyPilot and dstack."""
    from planner.commands import launch_files as command

    output = replace(output, out=launch.directory)
    pricing = replace(offers, assumptions=assumptions)
    raise typer.Exit(command.run(own.study, launch.rank, target, pricing, output))


@app.command(cls=PlainCommand)
@grouped("out", "providers", "regions", "gpus", "is_spot", "is_reserved", "confidence")
def verify(
    study: StudyFlags,
    own: VerifyFlags,
    offers: OfferFlags,
    output: OutputFlags,
) -> None:
    """Say whether a launched run keeps to its plan, and what its bill will be."""
    from planner.commands import verify as command

    pricing = replace(offers, is_reserved=True)
    raise typer.Exit(command.run(study.study, own, pricing, replace(output, out=own.directory)))


@app.command(cls=PlainCommand)
@grouped("out", "is_json")
def studies(output: OutputFlags) -> None:
    """List the saved studies and what they hold."""
    from planner.commands import studies as command

    raise typer.Exit(command.run(output.storage))


@catalog_app.callback(invoke_without_command=True)
@grouped("confidence")
def catalog(context: typer.Context, own: CatalogFlags, offers: OfferFlags) -> None:
    """List the offers that planner knows, or its GPUs; `planner catalog refresh` fetches new prices."""
    if context.invoked_subcommand is not None:
        return
    from planner.commands import catalog as command

    raise typer.Exit(command.run(offers, own))


def _root_flag(source: PriceSource) -> Flag:
    return Flag(
        field=source.name,
        name=f"--{source.name}",
        kind=TEXT,
        help=source.help,
        default=None,
        shown=f"{source.title}, unless only another source is named",
        panel=None,
        envvar=None,
        metavar="FOLDER|URL",
    )


@catalog_app.command(
    "refresh",
    cls=PlainCommand,
    help="Fetch the prices that providers publish, check them, and use them from now on. Read are "
    f"{' and '.join(source.title for source in price_sources())}.",
)
@grouped(
    *("catalog", "prices", "regions", "gpus", "is_spot", "is_reserved", "confidence"),
    extra=[_root_flag(source) for source in price_sources()],
)
def catalog_refresh(offers: OfferFlags, extra: Mapping[str, str]) -> None:
    """Read published prices; the help names the sources that there are."""
    from planner.commands import catalog_refresh as command

    raise typer.Exit(command.run(extra, offers.providers))
