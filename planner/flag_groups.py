"""Flags that several commands take as one value: typer has no groups, so they are put into the signatures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import typer

from catalogs.sources.price_source import PriceSource
from catalogs.sources.registry import price_sources
from planner import options
from planner.errors import PlannerError
from planner.given import BillFlags, Pricing
from planner.target import BatchRange, TargetFlags, check_money, parse_batch_size, parse_duration_s

T = TypeVar("T")


def grouped(**groups: Callable[..., Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """The command or group with the flags of each group in the place of the parameter that names the group.

    It gets what the group makes of its flags. A flag that it has itself is its own, and the group is left
    with its default.
    """

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        signature = inspect.signature(command, eval_str=True)
        flags: list[inspect.Parameter] = []
        added: dict[str, list[str]] = {}
        for one in signature.parameters.values():
            if one.name not in groups:
                flags.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            theirs = inspect.signature(groups[one.name], eval_str=True).parameters
            mine = [flag for name, flag in theirs.items() if name not in signature.parameters]
            added[one.name] = [flag.name for flag in mine]
            flags += mine
        defaults = {one.name: one.default for one in flags if one.default is not one.empty}

        @functools.wraps(command)
        def typed(**given_values: Any) -> T:
            values = defaults | given_values
            made = {
                name: groups[name](**{flag: values.pop(flag) for flag in names})
                for name, names in added.items()
            }
            return command(**values, **made)

        typed.__signature__ = signature.replace(parameters=flags)  # type: ignore[attr-defined]
        typed.__annotations__ = {one.name: one.annotation for one in flags}
        del typed.__wrapped__  # or the annotations of the command would be taken
        return typed

    return decorate


def _run_flags(
    *,
    samples: options.Samples = None,
    epochs: options.Epochs = None,
    tokens: options.Tokens = None,
    global_batch_size: options.GlobalBatchSize = None,
) -> TargetFlags:
    """The run alone."""
    size = None if global_batch_size is None else parse_batch_size(global_batch_size)
    return TargetFlags(
        samples=samples,
        epochs=epochs,
        tokens=tokens,
        global_batch_size=size if isinstance(size, int) else None,
        batch_range=size if isinstance(size, BatchRange) else None,
    )


@grouped(run=_run_flags)
def target_flags(
    *,
    budget: options.Budget = None,
    deadline: options.Deadline = None,
    hour_value: options.HourValue = None,
    run: TargetFlags,
) -> TargetFlags:
    """The run, and what it may cost and take."""
    check_money("--budget", budget)
    check_money("--hour-value", hour_value, is_zero_allowed=True)
    return replace(
        run,
        budget_usd=budget,
        deadline_s=None if deadline is None else parse_duration_s(deadline, "--deadline"),
        hour_value_usd=hour_value,
    )


@grouped(run=_run_flags)
def length_flags(*, run: TargetFlags) -> TargetFlags:
    """The run alone, in batches of one size."""
    sizes = run.batch_range
    if sizes is not None:
        raise PlannerError(
            f"--global-batch-size {sizes.low}:{sizes.high}: this command takes one size; `planner report` "
            "and `planner sweep` choose from a range"
        )
    return run


def offer_flags(
    *,
    catalog: options.Catalog = None,
    price: options.Prices = None,
    provider: options.Providers = None,
    region: options.Regions = None,
    gpu: options.Gpus = None,
    spot: options.Spot = None,
    reserved: options.Reserved = False,
) -> Pricing:
    """What may be rented, and at which prices."""
    return Pricing(
        catalog=catalog,
        prices=tuple(price or ()),
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        gpus=tuple(gpu or ()),
        is_spot=spot,
        is_reserved=reserved,
    )


@grouped(offers=offer_flags)
def pricing_flags(
    *,
    offers: Pricing,
    confidence: options.Confidence = 0.9,
    provisioning_minutes: options.ProvisioningMinutes = 5.0,
) -> Pricing:
    """The same, and how a run on it is priced."""
    return replace(offers, confidence=confidence, provisioning_s=provisioning_minutes * 60)


def bill_flags(
    *,
    setup_minutes: options.SetupMinutes = 0.0,
    evaluation_minutes: options.EvaluationMinutes = 0.0,
    data_gib: options.DataGib = None,
    data_from: options.DataFrom = None,
    egress_price: options.EgressPrice = None,
    storage_price: options.StoragePrice = None,
    checkpoint_gib_per_s: options.CheckpointGibPerS = None,
    checkpoint_minutes: options.CheckpointMinutes = 60.0,
    spot_wait_minutes: options.SpotWaitMinutes = 30.0,
    interruptions_per_hour: options.InterruptionsPerHour = None,
    grid_g_per_kwh: options.GridGPerKwh = None,
) -> BillFlags:
    """What the user says of the bill beside the price."""
    return BillFlags(
        setup_minutes=setup_minutes,
        evaluation_minutes=evaluation_minutes,
        data_gib=data_gib,
        data_from=data_from,
        egress_price=egress_price,
        storage_price=storage_price,
        checkpoint_gib_per_s=checkpoint_gib_per_s,
        checkpoint_minutes=checkpoint_minutes,
        spot_wait_minutes=spot_wait_minutes,
        interruptions_per_hour=interruptions_per_hour,
        grid_g_per_kwh=grid_g_per_kwh,
    )


def price_roots(**roots: str | None) -> dict[str, str]:
    """Where the price sources are read that were named, by name."""
    return {name: root for name, root in roots.items() if root is not None}


def _root_flag(source: PriceSource) -> inspect.Parameter:
    others = [f"--{other.name}" for other in price_sources() if other is not source]
    default = f"{source.title}{', unless another is given' if others else ''}"
    kind = Annotated[str | None, typer.Option(f"--{source.name}", help=source.help, show_default=default)]
    return inspect.Parameter(source.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


price_roots.__signature__ = inspect.Signature([_root_flag(source) for source in price_sources()])  # type: ignore[attr-defined]
