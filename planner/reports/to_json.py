"""The report for machines: base units named in the keys, and a schema version.

Seconds, bytes, dollars and fractions, nothing rounded; null is unknown. An estimate is an object of low,
expected, high and basis. Every key is written here on purpose: the schema does not follow internal names.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from catalogs.gpus import DeviceKind
from catalogs.offers import Offer
from planner.bill.price_run import SpotRun
from planner.choice.explain import Comparison, Shortfall
from planner.choice.guard import Guard
from planner.choice.plan import Plan
from planner.choice.recommend import Recommendation
from planner.choice.sensitivity import Sensitivity
from planner.choice.settle import UsefulTrial
from planner.estimate.bound import Binding
from planner.filters import Filters
from planner.reports import words
from planner.reports.batch_to_json import batch_json
from planner.reports.cautions import first_warning, warnings
from planner.reports.renting import ways_to_rent
from planner.reports.report import Report
from planner.reports.trials_to_json import (
    config_json,
    curve_json,
    environment_json,
    estimate_json,
    trial_json,
)
from planner.reports.why import explanation
from planner.spot.policy import PolicyChoice

SECONDS_PER_DAY = 86_400
SCHEMA_VERSION = 1  # raised when a key changes its meaning or goes; new keys do not raise it


def render(report: Report) -> str:
    """JSON text, one line for each key and each item of a list."""
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in _document(report).items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _document(report: Report) -> dict[str, Any]:
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
        "winner": _plan(answer.winner),
        "nearest": _plan(answer.nearest),
        "shortfall": _shortfall(answer.shortfall),
        "comparison": _comparison(answer.comparison),
        "batch_choice": batch_json(report.batch),
        "policies": _policies(answer.policies),
        "useful_trial": _useful_trial(answer.useful_trial),
        "settling": [_useful_trial(one) for one in answer.settling],
        "sensitivities": [_sensitivity(one) for one in answer.sensitivities],
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
        "plans": [plan_row(one) for one in answer.plans],
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


def _plan(plan: Plan | None) -> dict[str, Any] | None:
    """A plan with its bill and its notes."""
    if plan is None:
        return None
    terms = [
        {
            "name": one.name,
            "low_usd": one.low_usd,
            "expected_usd": one.expected_usd,
            "high_usd": one.high_usd,
            "formula": one.formula,
        }
        for one in plan.breakdown.terms
    ]
    return {
        **plan_row(plan),
        "breakdown": terms,
        "not_counted": list(plan.bill.not_counted),
        "notes": list(plan.notes),
    }


def plan_row(plan: Plan) -> dict[str, Any]:
    """A plan as a row of ``plans``."""
    return {
        "rank": plan.rank,
        "offer": _offer(plan.offer),
        "instance_count": plan.instance_count,
        "device_count": plan.device_count,
        "price_usd_per_hour": plan.price_usd_per_hour,
        "configuration": config_json(plan.config),
        "basis": plan.basis.value,
        "step_time_s": estimate_json(plan.step_time_s),
        "throughput_samples_per_s": estimate_json(plan.throughput_per_s),
        "duration_s": estimate_json(plan.duration_s),
        "held_s": estimate_json(plan.held_s),
        "checkpoint_interval_s": plan.checkpoint_interval_s,
        "checkpoint_stall_s": plan.saving.stall_s,
        "spot": _spot(plan.spot),
        "energy_j": estimate_json(plan.energy.energy_j) if plan.energy else None,
        "co2_kg": estimate_json(plan.energy.co2_kg) if plan.energy and plan.energy.co2_kg else None,
        "cost_usd": estimate_json(plan.cost_usd),
        "cost_with_waiting_usd": estimate_json(plan.weighed_usd),
        "total_with_sweep_usd": estimate_json(plan.total_usd),
        "peak_memory_bytes": estimate_json(plan.peak_memory_bytes),
        "memory_bytes": plan.memory_bytes,
        "memory_headroom_fraction": plan.memory_headroom_fraction,
        "is_within_budget": plan.is_within_budget,
        "is_within_deadline": plan.is_within_deadline,
        "is_tied_with_best": plan.is_tied_with_best,
        "host_fraction": plan.host_fraction,
    }


def _spot(spot: SpotRun | None) -> dict[str, Any] | None:
    if spot is None:
        return None
    return {
        "is_rate_known": spot.is_rate_known,
        "is_rate_stated": spot.is_rate_stated,
        "interruptions_per_s": spot.job.interruptions_per_s if spot.is_rate_known else None,
        "interruption_count": spot.interruption_count,
        "restart": {**asdict(spot.job.restart), "total_s": spot.job.restart.total_s},
        "mean_wait_s": spot.job.wait_s,
        "rent_p10_usd": spot.cost_usd_p10,
        "rent_p90_usd": spot.cost_usd_p90,
        "deadline_missed_fraction": spot.miss_probability,
        "break_even_interruptions_per_s": spot.break_even_rate_per_s,
    }


def _policies(choice: PolicyChoice | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    return {
        "chosen": choice.chosen.policy.value,
        "reason": choice.reason.value,
        "accepted_miss_fraction": choice.accepted_miss_fraction,
        "discount_fraction": choice.discount_fraction,
        "break_even_discount_fraction": choice.break_even_discount_fraction,
        "compared": [
            {
                "policy": one.policy.value,
                "rent_usd": estimate_json(one.cost_usd),
                "wall_s": estimate_json(one.wall_s),
                "deadline_missed_fraction": one.miss_probability,
                "on_demand_fraction": one.on_demand_fraction,
                "checkpoint_interval_s": one.checkpoint_interval_s,
            }
            for one in choice.compared
        ],
    }


def _offer(offer: Offer) -> dict[str, Any]:
    return {
        "provider": offer.provider,
        "instance_type": offer.instance_type,
        "region": offer.region,
        "pricing": offer.pricing.value,
        "device": offer.gpu,
        "device_count": offer.gpu_count,
        "vcpus": offer.vcpus,
        "memory_bytes": offer.memory_bytes,
        "price_usd_per_hour": offer.price_usd_per_hour,
        "billing_increment_s": offer.billing_increment_s,
        "as_of": offer.as_of.isoformat(),
        "source": offer.source,
    }


def _shortfall(one: Shortfall | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "needed_budget_usd": one.budget_usd,
        "needed_deadline_s": one.deadline_s,
        "samples_that_fit": one.samples,
        "is_within_at_expected": one.is_within_at_expected,
    }


def _comparison(one: Comparison | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "runner_up_rank": one.runner_up.rank if one.runner_up else None,
        "extra_usd": one.extra_usd,
        "speed_ratio": one.speed_ratio,
        "price_ratio": one.price_ratio,
        "is_tie": one.is_tie,
        "passed_over_count": one.passed_over_count,
        "passed_over_rank": one.passed_over.rank if one.passed_over else None,
    }


def _useful_trial(one: UsefulTrial | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "device": one.offer.gpu,
        "is_gpu": one.plan.hardware.gpu.kind is DeviceKind.GPU,
        "offer": _offer(one.offer),
        "instance_count": one.instance_count,
        "trial_s": one.trial_s,
        "cost_usd": one.cost_usd,
        "expected_saving_usd": one.expected_saving_usd,
        "settles_rank": one.plan.rank,
        "rival_rank": one.rival.rank if one.rival else None,
    }


def _sensitivity(one: Sensitivity) -> dict[str, Any]:
    return {
        "change": one.change.value,
        "moved_fraction": one.moved_fraction,
        "is_flipped": one.is_flipped,
        "rival_rank": one.rival.rank if one.rival else None,
        "flip_fraction": one.flip_fraction,
        "price_age_s": None if one.age_days is None else one.age_days * SECONDS_PER_DAY,
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


def _binding(one: Binding | None) -> dict[str, Any] | None:
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
