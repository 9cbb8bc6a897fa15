"""Short names for plans and configurations, the same in every output."""

from __future__ import annotations

from catalogs.gpus import DeviceKind
from planner.plan import Plan
from planner.reports import formats
from trials.trial import Parallelism, TrialConfig

_PARALLELISM_WORDS = {Parallelism.SINGLE: "", Parallelism.DDP: "DDP", Parallelism.FSDP2: "FSDP2"}


def rental(plan: Plan) -> str:
    """Instances, their type and the provider."""
    return f"{formats.times(plan.instance_count, plan.offer.instance_type)} from {plan.offer.provider}"


def place(plan: Plan) -> str:
    """Devices, region, kind of price and price."""
    price = formats.usd_per_hour(plan.price_usd_per_hour)
    return f"{devices(plan)}, {plan.offer.region}, {plan.offer.pricing}, {price}"


def devices(plan: Plan) -> str:
    """Number and type of GPUs; for CPU instances their vCPUs."""
    if plan.hardware.gpu.kind is DeviceKind.CPU:
        return f"{plan.offer.vcpus * plan.instance_count} vCPUs ({plan.offer.gpu})"
    return formats.times(plan.device_count, plan.offer.gpu)


def batch(config: TrialConfig) -> str:
    """How the global batch comes about."""
    factors = [f"micro batch {config.micro_batch_size}", f"accumulation {config.accumulation}"]
    if config.gpu_count > 1:
        factors.append(f"{config.gpu_count} workers")
    return f"{formats.product(factors)} = {config.global_batch_size}"


def techniques(config: TrialConfig) -> tuple[str, ...]:
    """Precision first, then what else is switched on."""
    has = (
        config.precision.value,
        _PARALLELISM_WORDS[config.parallelism],
        "activation checkpointing" if config.is_checkpointed else "",
        "torch.compile" if config.is_compiled else "",
    )
    return tuple(one for one in has if one)


def technique(config: TrialConfig) -> str:
    """The same in one short line."""
    return ", ".join(techniques(config))


def configuration(config: TrialConfig) -> str:
    """Batch and techniques."""
    return f"{batch(config)}, {technique(config)}"


def fit(plan: Plan) -> str:
    """How a plan stands to the limits, in a table's cell."""
    if plan.is_within_limits:
        return "fits"
    broken = [
        name
        for name, is_kept in (("budget", plan.is_within_budget), ("deadline", plan.is_within_deadline))
        if not is_kept
    ]
    return f"over {' and '.join(broken)}"
