"""Flags that several commands take as one value: typer has no groups, so they are put into the signatures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from planner import options as given


def with_bill(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the flags of `bill_flags`, which it gets as one value, ``bill``."""
    return _with_group(command, "bill", bill_flags)


def bill_flags(
    *,
    setup_minutes: given.SetupMinutes = 0.0,
    evaluation_minutes: given.EvaluationMinutes = 0.0,
    data_gib: given.DataGib = None,
    data_from: given.DataFrom = None,
    storage_price: given.StoragePrice = None,
    checkpoint_gib_per_s: given.CheckpointGibPerS = None,
    interruptions_per_hour: given.InterruptionsPerHour = None,
    grid_g_per_kwh: given.GridGPerKwh = None,
) -> given.BillFlags:
    """What the user says of the bill beside the price."""
    return given.BillFlags(
        setup_minutes=setup_minutes,
        evaluation_minutes=evaluation_minutes,
        data_gib=data_gib,
        data_from=data_from,
        storage_price=storage_price,
        checkpoint_gib_per_s=checkpoint_gib_per_s,
        interruptions_per_hour=interruptions_per_hour,
        grid_g_per_kwh=grid_g_per_kwh,
    )


def _with_group(command: Callable[..., None], name: str, group: Callable[..., Any]) -> Callable[..., None]:
    added = inspect.signature(group, eval_str=True).parameters
    signature = inspect.signature(command, eval_str=True)
    kept = [one for one in signature.parameters.values() if one.name != name]

    @functools.wraps(command)
    def typed(**given_flags: Any) -> None:
        command(**{name: group(**{one: given_flags.pop(one) for one in added})}, **given_flags)

    parameters = [*kept, *added.values()]
    typed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    typed.__annotations__ = {one.name: one.annotation for one in parameters}
    del typed.__wrapped__  # or the annotations of the command would be taken
    return typed
