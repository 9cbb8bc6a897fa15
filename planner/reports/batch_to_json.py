"""The choice of the global batch size for machines; see to_json.py for what holds for all keys."""

from __future__ import annotations

from typing import Any

from planner.estimate.noise_scale import ADAM_POWERS
from planner.plans.batch_size import BatchChoice, BatchOption
from planner.reports.trials_to_json import estimate_json


def batch_json(batch: BatchChoice | None) -> dict[str, Any] | None:
    """None where the batch size was not the planner's to choose."""
    if batch is None:
        return None
    scale, noise = batch.scale, batch.noise
    return {
        "low": batch.range.low,
        "high": batch.range.high,
        "reference": batch.reference,
        "chosen": batch.chosen.size,
        "noise_scale_samples": None
        if scale is None
        else {"low": scale.low, "expected": scale.expected, "high": scale.high},
        "draw_count": None if noise is None else len(noise.draws),
        "from_checkpoint": None if noise is None else noise.checkpoint,
        "problem": batch.problem or None,
        "sizes": [_option(one) for one in batch.options],
    }


def _option(one: BatchOption) -> dict[str, Any]:
    plan, samples, rate = one.plan, one.samples, one.learning_rate_factor
    return {
        "global_batch_size": one.size,
        "samples": one.target.samples,
        "samples_factor": {"low": samples.low, "expected": samples.expected, "high": samples.high},
        "learning_rate_factor_sgd": rate,
        "learning_rate_factors_adam": sorted(rate**power for power in ADAM_POWERS),
        "is_within_limits": one.answer.winner is not None,
        "gpu": None if plan is None else plan.offer.gpu,
        "gpu_count": None if plan is None else plan.device_count,
        "cost_usd": None if plan is None else estimate_json(plan.cost_usd),
        "duration_s": None if plan is None else estimate_json(plan.duration_s),
    }
