"""Plans, their bills and what the choice between them rests on, in the JSON report; see to_json.py."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from catalogs.gpus import DeviceKind
from catalogs.offers import Offer
from planner.cost.bill.priced import SpotRun
from planner.cost.spot.policy import PolicyChoice
from planner.plans.explain import Comparison, Shortfall
from planner.plans.plan import Plan
from planner.plans.sensitivity import Sensitivity
from planner.plans.value_of_information import UsefulTrial
from planner.reports.trials_to_json import config_json, estimate_json

SECONDS_PER_DAY = 86_400


def plan_json(plan: Plan | None) -> dict[str, Any] | None:
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


def policies_json(choice: PolicyChoice | None) -> dict[str, Any] | None:
    """The ways to rent the best plan's instances."""
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


def shortfall_json(one: Shortfall | None) -> dict[str, Any] | None:
    """What would have to give for a plan to fit."""
    if one is None:
        return None
    return {
        "needed_budget_usd": one.budget_usd,
        "needed_deadline_s": one.deadline_s,
        "samples_that_fit": one.samples,
        "is_within_at_expected": one.is_within_at_expected,
    }


def comparison_json(one: Comparison | None) -> dict[str, Any] | None:
    """The winner beside the next different choice."""
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


def useful_trial_json(one: UsefulTrial | None) -> dict[str, Any] | None:
    """A trial that would settle a prediction."""
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


def sensitivity_json(one: Sensitivity) -> dict[str, Any]:
    """What another price or speed does to the choice."""
    return {
        "change": one.change.value,
        "moved_fraction": one.moved_fraction,
        "is_flipped": one.is_flipped,
        "rival_rank": one.rival.rank if one.rival else None,
        "flip_fraction": one.flip_fraction,
        "price_age_s": None if one.age_days is None else one.age_days * SECONDS_PER_DAY,
    }
