"""Short names for plans and configurations, the same in every output."""

from __future__ import annotations

from collections.abc import Iterator

from catalogs.gpus import DeviceKind
from catalogs.offers import Pricing
from planner.modes import PARALLELISMS, TECHNIQUES
from planner.plans.plan import Plan
from planner.reports import formats, names
from trials.api import Failure, Outcome, TrialConfig


def rental(plan: Plan) -> str:
    """Instances, their type and the provider."""
    return f"{formats.times(plan.instance_count, plan.offer.instance_type)} from {plan.offer.provider}"


def known_by(plan: Plan) -> str:
    """What a person knows it by: GPUs with their memory, provider and country."""
    offer = plan.offer
    where = f"{names.provider(offer.provider)}, {names.place(offer.provider, offer.region)}"
    kind = "" if offer.pricing is Pricing.ON_DEMAND else f" ({offer.pricing})"
    return f"{known_devices(plan)} at {where}{kind}"


def known_devices(plan: Plan) -> str:
    """The same without where."""
    if plan.hardware.gpu.kind is DeviceKind.CPU:
        return devices(plan)
    return formats.times(plan.device_count, names.gpu(plan.offer.gpu))


def instance(plan: Plan) -> str:
    """What to order: instances, region, kind of price and price."""
    price = formats.usd_per_hour(plan.price_usd_per_hour)
    instances = formats.times(plan.instance_count, plan.offer.instance_type)
    return f"{instances} ({devices(plan)}), {_region(plan)}, {plan.offer.pricing}, {price}"


def place(plan: Plan) -> str:
    """Devices, region, kind of price and price."""
    price = formats.usd_per_hour(plan.price_usd_per_hour)
    return f"{devices(plan)}, {_region(plan)}, {plan.offer.pricing}, {price}"


def devices(plan: Plan) -> str:
    """Number and type of GPUs; for CPU instances their vCPUs."""
    if plan.hardware.gpu.kind is DeviceKind.CPU:
        return f"{plan.offer.vcpus * plan.instance_count} vCPUs ({plan.offer.gpu})"
    return formats.times(plan.device_count, plan.offer.gpu)


def named(plan: Plan) -> str:
    """Devices, and the kind of price where it is not on-demand."""
    kind = plan.offer.pricing.value
    return devices(plan) if kind == "on-demand" else f"{devices(plan)} {kind}"


def offer(plan: Plan) -> str:
    """Provider and region; the kind of price where it is not on-demand, the instances where several."""
    parts = (
        f"{plan.offer.provider} {_region(plan)}",
        "" if plan.offer.pricing is Pricing.ON_DEMAND else plan.offer.pricing.value,
        f"{plan.instance_count} instances" if plan.instance_count > 1 else "",
    )
    return ", ".join(one for one in parts if one)


def basis(plan: Plan) -> str:
    """What the speed rests on, and whether the host decides it by launching kernels too slowly."""
    return f"{plan.basis.value}, launch-bound" if plan.is_host_bound else plan.basis.value


def _region(plan: Plan) -> str:
    return "any region" if plan.offer.region == "any" else plan.offer.region


def split(config: TrialConfig) -> str:
    """Micro batch and accumulation in a table's cell."""
    return formats.product([str(config.micro_batch_size), str(config.accumulation)])


def outcome(one: Outcome) -> str:
    """What came of a trial, in a table's cell."""
    if isinstance(one, Failure):
        return f"{one.kind}: {one.reason}"
    how = "measured at two accumulation counts, interpolated" if one.is_interpolated else "measured"
    return f"{how}, {one.disturbance}" if one.disturbance else how


def batch(config: TrialConfig) -> str:
    """How the global batch comes about."""
    factors = [f"micro batch {config.micro_batch_size}", f"accumulation {config.accumulation}"]
    if config.gpu_count > 1:
        factors.append(f"{config.gpu_count} workers")
    return f"{formats.product(factors)} = {config.global_batch_size}"


def techniques(config: TrialConfig) -> tuple[str, ...]:
    """Precision first, then what else is switched on."""
    has = (
        config.precision,
        PARALLELISMS[config.parallelism].label,
        *(one.label for one in TECHNIQUES if one.name in config.techniques),
        *_loading(config),
    )
    return tuple(one for one in has if one)


def technique(config: TrialConfig) -> str:
    """The same in a table's cell."""
    has = (
        config.precision,
        PARALLELISMS[config.parallelism].label,
        *(one.short_label for one in TECHNIQUES if one.name in config.techniques),
        *_loading(config),
    )
    return ", ".join(one for one in has if one)


def _loading(config: TrialConfig) -> Iterator[str]:
    loading = config.loading
    if loading.worker_count is not None:
        yield formats.counted(loading.worker_count, "loader worker")
    if loading.prefetch_count is not None:
        yield f"{loading.prefetch_count} batches ahead"
    if loading.is_pinned is not None:
        yield "pinned" if loading.is_pinned else "not pinned"


def configuration(config: TrialConfig) -> str:
    """Batch and techniques."""
    return f"{batch(config)}, {', '.join(techniques(config))}"


def fit(plan: Plan) -> str:
    """How a plan stands to the limits, in a table's cell."""
    if plan.is_within_limits:
        return "fits"
    if not plan.is_within_budget and not plan.is_within_deadline:
        return "over both"
    return "over deadline" if plan.is_within_budget else "over budget"
