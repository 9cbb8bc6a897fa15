"""The report for machines: base units named in the keys, and a schema version.

Seconds, bytes, dollars and fractions, nothing rounded; null is unknown. An estimate is an object of low,
expected, high and basis. Every key is written here on purpose: the schema does not follow internal names.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from planner.estimate.time.bottleneck import Bottleneck
from planner.filters import Filters
from planner.plans.numerics_check import Guard
from planner.plans.recommendation import Recommendation
from planner.reports import words
from planner.reports.batch_to_json import batch_json
from planner.reports.cautions import first_warning, warnings
from planner.reports.plans_to_json import (
    comparison_json,
    plan_json,
    plan_row,
    policies_json,
    sensitivity_json,
    shortfall_json,
    useful_trial_json,
)
from planner.reports.renting import ways_to_rent
from planner.reports.report import Report
from planner.reports.trials_to_json import (
    config_json,
    curve_json,
    environment_json,
    trial_json,
)
from planner.reports.why import explanation

SCHEMA_VERSION = 1  # raised when a key changes its meaning or goes; new keys do not raise it


def render(report: Report) -> str:
    """JSON text, one line for each key and each item of a list."""
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in _document(report).items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _document(report: Report) -> dict[str, Any]:
    answer = report.recommendation
    plans = [plan_row(one) for one in answer.plans]
    return {**_question(report), **_choice(report), **_evidence(report), "plans": plans}


def _question(report: Report) -> dict[str, Any]:
    """What was asked, and the answer in words."""
    answer = report.recommendation
    return {
        "schema_version": SCHEMA_VERSION,
        "planner_version": report.planner_version,
        "generated_at": report.generated_at.isoformat(),
        "study": report.study,
        "status": _status(answer),
        "headline": words.headline(answer),
        "explanation": explanation(answer),
        "ways_to_rent": ways_to_rent(answer),
        "warnings": [one for one in (first_warning(report), *warnings(report)) if one],
        "workload": _workload(report),
        "target": {
            "samples": answer.target.samples,
            "global_batch_size": answer.target.global_batch_size,
            "step_count": answer.target.step_count,
            "tokens_per_sample": answer.target.tokens_per_sample,
            "budget_usd": answer.target.budget_usd,
            "deadline_s": answer.target.deadline_s,
            "hour_value_usd": answer.target.hour_value_usd,
        },
        "confidence_fraction": answer.confidence,
        "provisioning_s": answer.terms.stated.all_in.provisioning_s,
    }


def _choice(report: Report) -> dict[str, Any]:
    """The answer, and what it was chosen from."""
    answer = report.recommendation
    return {
        "winner": plan_json(answer.winner),
        "nearest": plan_json(answer.nearest),
        "shortfall": shortfall_json(answer.shortfall),
        "comparison": comparison_json(answer.comparison),
        "batch_choice": batch_json(report.batch),
        "policies": policies_json(answer.policies),
        "useful_trial": useful_trial_json(answer.useful_trial),
        "settling": [useful_trial_json(one) for one in answer.settling],
        "sensitivities": [sensitivity_json(one) for one in answer.sensitivities],
        "frontier_ranks": [one.rank for one in answer.frontier],
        "best_by_hour_value": [
            {"from_hour_value_usd": one.hour_value_usd, "best_rank": one.plan.rank}
            for one in answer.time_values
        ],
        "is_gpu_measured": answer.is_gpu_measured,
        "measured_devices": list(answer.measured_gpus),
        "unpriced_devices": list(answer.unpriced_gpus),
        "filters": _filters(answer.filters),
        "offer_count": answer.offer_count,
        "set_aside": [{"reason": one.reason, "offer_count": one.offer_count} for one in answer.set_aside],
        "least_memory": _least_memory(answer),
        "stale_prices": _stale_prices(answer),
    }


def _evidence(report: Report) -> dict[str, Any]:
    """What was measured, and what it cost."""
    return {
        "sweep": {
            "spent_usd": report.sweep.spent_usd,
            "wall_s": report.sweep.wall_s,
            "stopped_because": report.sweep.stopped_because,
            "trial_count": len(report.trials),
            "failure_count": len(report.failures),
        },
        "guards": [_guard(one) for one in report.guards],
        "binding": _binding(report.binding),
        "exclusions": [{"knob": one.knob, "reason": one.reason} for one in report.exclusions],
        "notes": list(report.notes),
        "environments": [environment_json(one) for one in report.environments],
        "trials": [trial_json(one) for one in report.trials],
        "curves": [curve_json(one) for one in report.curves],
    }


def _status(answer: Recommendation) -> str:
    if answer.winner is not None:
        return "plan"
    return "nothing fits" if answer.nearest is not None else "no plan"


def _workload(report: Report) -> dict[str, Any]:
    profile = report.profile
    return {
        "path": report.workload.path,
        "sha256": report.workload.sha256,
        "adapter": profile.adapter.value,
        "parameter_count": profile.parameter_count,
        "trainable_parameter_count": profile.trainable_parameter_count,
        "sample_shape": profile.sample_shape,
        "dataset_size": profile.dataset_size,
    }


def _filters(filters: Filters) -> dict[str, Any]:
    return {
        "providers": sorted(filters.providers),
        "regions": sorted(filters.regions),
        "devices": sorted(filters.gpus),
        "is_spot": filters.is_spot,
    }


def _guard(one: Guard) -> dict[str, Any]:
    return {
        "configuration": config_json(one.config),
        "losses": list(one.losses),
        "reference": config_json(one.reference),
        "reference_losses": list(one.reference_losses),
        "rejection": one.rejection or None,
    }


def _binding(one: Bottleneck | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "configuration": config_json(one.config),
        "phases": asdict(one.phases),
        "bound": one.bound.value,
        "bound_fraction": one.fraction,
        "twice_as_fast_device_speed_ratio": one.faster_gpu_ratio,
        "loaders": one.loaders
        and {"loader_worker_count": one.loaders.worker_count, "speed_ratio": one.loaders.speed_ratio},
    }


def _least_memory(answer: Recommendation) -> dict[str, Any] | None:
    least = answer.least_memory
    if least is None:
        return None
    return {"needed_bytes": least.needed_bytes, "memory_bytes": least.memory_bytes}


def _stale_prices(answer: Recommendation) -> dict[str, Any] | None:
    stale = answer.stale_prices
    if stale is None:
        return None
    return {
        "on_demand_count": stale.on_demand_count,
        "spot_count": stale.spot_count,
        "oldest": stale.oldest.isoformat(),
    }


def _lines(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(_dumps(one) for one in value) + "\n]"
    return _dumps(value)


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
