"""Trials, their environments and the fitted curves in the JSON report, raw step times included."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from planner.estimate.values import Estimate
from planner.reports.report import Curve, TrialRecord
from trials.trial import Environment, Failure, Measurement, Telemetry, TrialConfig


def trial_json(record: TrialRecord) -> dict[str, Any]:
    """One finished trial."""
    outcome = record.outcome
    return {
        "number": record.number,
        "configuration": config_json(outcome.config),
        "trial_s": outcome.trial_s,
        "cost_usd": record.cost_usd,
        "peak_fraction": record.peak_fraction,
        "measurement": _measurement(outcome) if isinstance(outcome, Measurement) else None,
        "failure": (
            {"kind": outcome.kind.value, "reason": outcome.reason} if isinstance(outcome, Failure) else None
        ),
    }


def config_json(config: TrialConfig) -> dict[str, Any]:
    """Every knob, the device included."""
    return {
        "device": config.gpu,
        "worker_count": config.gpu_count,
        "node_count": config.node_count,
        "micro_batch_size": config.micro_batch_size,
        "accumulation": config.accumulation,
        "global_batch_size": config.global_batch_size,
        "precision": config.precision,
        "parallelism": config.parallelism,
        "is_checkpointed": config.is_checkpointed,
        "is_compiled": config.is_compiled,
        "loader_worker_count": config.loader_worker_count,
        "loader_prefetch_count": config.loader_prefetch_count,
        "is_pinned": config.is_pinned,
    }


def environment_json(one: Environment) -> dict[str, Any]:
    """Where measurements were taken."""
    return {
        "device_name": one.device_name,
        "device_memory_bytes": one.device_memory_bytes,
        "driver": one.driver,
        "cuda": one.cuda,
        "torch": one.torch,
        "ray": one.ray,
        "python": one.python,
        "host_cpu_count": one.host_cpu_count,
        "node_count": one.node_count,
        "threads_per_worker": one.threads_per_worker,
    }


def curve_json(curve: Curve) -> list[dict[str, Any]]:
    """The points of one fitted curve."""
    return [
        {
            "configuration": config_json(one.config),
            "throughput_samples_per_s": estimate_json(one.throughput_per_s),
            "peak_memory_bytes": estimate_json(one.peak_memory_bytes),
        }
        for one in curve.points
    ]


def estimate_json(estimate: Estimate | None) -> dict[str, Any] | None:
    """Three numbers and what they rest on."""
    if estimate is None:
        return None
    return {
        "low": estimate.low,
        "expected": estimate.expected,
        "high": estimate.high,
        "basis": estimate.basis.value,
    }


def _measurement(one: Measurement) -> dict[str, Any]:
    return {
        "step_time_s": one.step_time_s,
        "throughput_samples_per_s": one.throughput_per_s,
        "half_width_fraction": one.half_width_fraction,
        "is_steady": one.is_steady,
        "is_interpolated": one.is_interpolated,
        "series": [
            {"accumulation": part.accumulation, "step_times_s": list(part.step_times_s)}
            for part in one.series
        ],
        "warmup_step_count": one.warmup_step_count,
        "startup_s": one.startup_s,
        "first_step_s": one.first_step_s,
        "peak_allocated_bytes": list(one.peak_allocated_bytes),
        "peak_reserved_bytes": None if one.peak_reserved_bytes is None else list(one.peak_reserved_bytes),
        "peak_parts": None if one.peak_parts is None else asdict(one.peak_parts),
        "losses": list(one.losses),
        "phases": None if one.phases is None else asdict(one.phases),
        "telemetry": None if one.telemetry is None else _telemetry(one.telemetry),
        "checkpoint": None if one.checkpoint is None else asdict(one.checkpoint),
        "links": None if one.links is None else asdict(one.links),
        "noise": None if one.noise is None else asdict(one.noise),
        "foreign_cpu_fraction": one.foreign_cpu_fraction,
        "disturbance": one.disturbance or None,
        "extras_s": one.extras_s,
        "warnings": list(one.warnings),
        "environment": environment_json(one.environment),
    }


def _telemetry(one: Telemetry) -> dict[str, Any]:
    return {
        "sample_count": one.sample_count,
        "gpu_utilisation_fraction": one.gpu_utilisation_fraction,
        "memory_utilisation_fraction": one.memory_utilisation_fraction,
        "sm_clock_hz": one.sm_clock_hz,
        "sm_clock_max_hz": one.sm_clock_max_hz,
        "power_w": one.power_w,
        "power_limit_w": one.power_limit_w,
        "temperature_max_c": one.temperature_max_c,
        "energy_j": one.energy_j,
        "throttle_reasons": list(one.throttle_reasons),
        "other_process_count": one.other_process_count,
    }
