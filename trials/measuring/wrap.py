"""Puts a Step under the precision, the techniques and the parallelism of a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from trials.model_file.contract import Step
from trials.modes import PARALLELISMS, PRECISIONS, techniques_of
from trials.modes.parallelism import Plan
from trials.rank_context import RankContext
from trials.trial import TrialConfig


def refusal(config: TrialConfig, context: RankContext) -> str | None:
    """Why this rank cannot run ``config`` at all; None where it can."""
    if config.gpu_count != context.world_size:
        return f"the trial wants {config.gpu_count} workers, this group has {context.world_size}"
    device = context.torch_device
    reasons = (
        PARALLELISMS[config.parallelism].refusal(context),
        *(one.refusal(device) for one in techniques_of(config)),
        PRECISIONS[config.precision].refusal(device),
    )
    return next((one for one in reasons if one is not None), None)


def wrap(step: Step, config: TrialConfig, context: RankContext, probe: Callable[[Step], Any]) -> nn.Module:
    """The step as it trains: on its device, prepared, compiled, parallel.

    ``probe`` gives the loss of a small batch.
    """
    precision, techniques = PRECISIONS[config.precision], techniques_of(config)
    precision.prepare(step)
    for technique in techniques:
        technique.prepare(step)
    plan = Plan(step=step, context=context, precision=precision, techniques=techniques, probe=probe)
    return PARALLELISMS[config.parallelism].wrap(plan)
