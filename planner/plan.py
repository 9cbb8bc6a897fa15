"""A plan: one offer, so many instances of it, the best configuration on them, and what the run then costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from catalogs.gpus import DeviceKind, Gpu, Link
from catalogs.offers import Offer, Pricing
from planner.candidates import Measured, NoChoice, Place
from planner.choose import Choice, Chooser
from planner.cost import Breakdown, hourly_usd, run_cost, run_duration_s, sweep_term, with_waiting
from planner.estimate.values import Basis, Estimate, Hardware
from planner.filters import Filters
from planner.target import Target
from planner.ties import NEGLIGIBLE_FRACTION, is_same_within
from trials.trial import TrialConfig

INSTANCE_COUNTS = (1, 2, 4, 8)
CPU_INSTANCE_COUNTS = (1,)  # CPU instances come in every size: more cores means a larger one, not several

SPOT_NOTE = "spot: the price can move and the instance can be taken away; interruptions are not in this cost"
HOST_BOUND_FRACTION = 0.5  # from which the host takes longer than the GPU
CPU_NOTE = "no GPU: the worker processes share the instance's vCPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to rent, how to configure it, and what comes of it.

    ``cost_usd`` is the run's bill; ``total_usd`` has the sweep in it and is what the budget must cover. The
    limits are held against the high ends. ``is_tied_with_best`` means: cannot be told apart from the best.
    """

    rank: int  # from 1, by expected weighed_usd
    offer: Offer
    instance_count: int
    config: TrialConfig
    hardware: Hardware
    step_time_s: Estimate
    throughput_per_s: Estimate  # samples
    duration_s: Estimate
    cost_usd: Estimate
    weighed_usd: Estimate  # cost_usd, and the waiting where an hour of it has a value
    total_usd: Estimate
    breakdown: Breakdown  # adds up to total_usd
    peak_memory_bytes: Estimate  # of one worker; its high end was held against memory_bytes
    memory_bytes: int  # that one worker has
    is_within_budget: bool
    is_within_deadline: bool
    is_tied_with_best: bool
    tied_configs: tuple[TrialConfig, ...]  # on the same hardware, not told apart from this one
    notes: tuple[str, ...]
    host_fraction: float | None = None  # of the step, that no faster GPU shortens; None where unknown

    @property
    def is_host_bound(self) -> bool:
        """Whether the host, not the GPU, is expected to decide the pace."""
        return self.host_fraction is not None and self.host_fraction >= HOST_BOUND_FRACTION

    @property
    def basis(self) -> Basis:
        """What the step time rests on."""
        return self.step_time_s.basis

    @property
    def is_within_limits(self) -> bool:
        """Within budget and deadline, both at the high end."""
        return self.is_within_budget and self.is_within_deadline

    @property
    def price_usd_per_hour(self) -> float:
        """For all instances."""
        return hourly_usd(self.offer, self.instance_count)

    @property
    def device_count(self) -> int:
        """GPUs in all, or CPU machines."""
        return self.offer.gpu_count * self.instance_count

    @property
    def memory_headroom_fraction(self) -> float:
        """What the high end of the peak leaves of the memory."""
        return 1.0 - self.peak_memory_bytes.high / self.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for all plans alike."""

    target: Target
    provisioning_s: float
    sweep_usd: float | None  # spent on trials; None where their devices have no price


def is_tied(one: Plan, other: Plan) -> bool:
    """Whether the costs of two plans cannot be told apart.

    The same configuration on the same device shares its error, so there the prices tell them apart.
    """
    if one.config == other.config:
        low, high = sorted((one.weighed_usd.expected, other.weighed_usd.expected))
        return high <= low * (1 + NEGLIGIBLE_FRACTION)
    return is_same_within(one.weighed_usd, other.weighed_usd)


def repriced(plan: Plan, terms: Terms, *, price_factor: float = 1.0, step_factor: float = 1.0) -> Plan:
    """The plan as it would be at another price or speed, all else equal. Its rank stays."""
    offer = replace(plan.offer, price_usd_per_hour=plan.offer.price_usd_per_hour * price_factor)
    choice = Choice(
        config=plan.config,
        step_time_s=plan.step_time_s.scaled(step_factor),
        peak_memory_bytes=plan.peak_memory_bytes,
        memory_bytes=plan.memory_bytes,
        tied=plan.tied_configs,
    )
    return replace(_plan(offer, plan.instance_count, plan.hardware, choice, terms), rank=plan.rank)


def plans_of(offer: Offer, gpu: Gpu, chooser: Chooser, terms: Terms) -> Iterator[Plan | NoChoice]:
    """A plan, or why there is none, for every instance count."""
    counts = CPU_INSTANCE_COUNTS if gpu.kind is DeviceKind.CPU else INSTANCE_COUNTS
    for instance_count in counts:
        place = _place(offer, gpu, instance_count, chooser.candidates.measured)
        choice = chooser.choose(place)
        if isinstance(choice, NoChoice):
            yield choice
        else:
            yield _plan(offer, instance_count, place.hardware, choice, terms)


def filtered(
    offers: Iterable[Offer], gpus: Mapping[str, Gpu], filters: Filters
) -> tuple[tuple[Offer, ...], Counter[tuple[str, str]]]:
    """The offers to be considered, and how many of which device are left out for which reason."""
    kept: list[Offer] = []
    left_out = Counter[tuple[str, str]]()
    for offer in offers:
        refusal = filters.refusal(offer)
        if refusal is None and offer.gpu not in gpus:
            refusal = "with a device whose figures are not in the catalog"
        if refusal is None:
            kept.append(offer)
        else:
            left_out[offer.gpu, refusal] += 1
    return tuple(kept), left_out


def hardware_of(offer: Offer, gpu: Gpu, instance_count: int) -> Hardware:
    """What decides the speed of ``instance_count`` instances, and nothing else, so that equals are equal."""
    return Hardware(
        gpu=gpu,
        link=offer.gpu_link if offer.gpu_count > 1 else Link.NONE,
        vcpus=offer.vcpus if gpu.kind is DeviceKind.CPU else None,  # beside a GPU they decide nothing yet
        network_bytes_per_s=offer.network_bytes_per_s if instance_count > 1 else None,
    )


def _place(offer: Offer, gpu: Gpu, instance_count: int, measured: Measured) -> Place:
    is_cpu = gpu.kind is DeviceKind.CPU
    worker_counts = {offer.gpu_count * instance_count}
    if is_cpu:
        worker_counts |= measured.worker_counts(gpu.name, instance_count)
    return Place(
        hardware=hardware_of(offer, gpu, instance_count),
        node_count=instance_count,
        worker_counts=tuple(sorted(worker_counts)),
        node_memory_bytes=offer.memory_bytes if is_cpu else gpu.memory_bytes,
    )


def _plan(offer: Offer, instance_count: int, hardware: Hardware, choice: Choice, terms: Terms) -> Plan:
    target = terms.target
    duration_s = run_duration_s(target, choice.step_time_s, terms.provisioning_s)
    bill = run_cost(offer, instance_count, duration_s, terms.provisioning_s)
    cost_usd = bill.total_usd
    if terms.sweep_usd is not None:
        bill = bill.plus(sweep_term(terms.sweep_usd))
    total_usd = bill.total_usd
    notes = (
        *((SPOT_NOTE,) if offer.pricing is Pricing.SPOT else ()),
        *((CPU_NOTE,) if hardware.gpu.kind is DeviceKind.CPU else ()),
    )
    return Plan(
        rank=0,
        offer=offer,
        instance_count=instance_count,
        config=choice.config,
        hardware=hardware,
        step_time_s=choice.step_time_s,
        throughput_per_s=choice.step_time_s.inverse(float(target.global_batch_size)),
        duration_s=duration_s,
        cost_usd=cost_usd,
        weighed_usd=with_waiting(cost_usd, duration_s, target.hour_value_usd),
        total_usd=total_usd,
        breakdown=bill,
        peak_memory_bytes=choice.peak_memory_bytes,
        memory_bytes=choice.memory_bytes,
        is_within_budget=target.budget_usd is None or total_usd.high <= target.budget_usd,
        is_within_deadline=target.deadline_s is None or duration_s.high <= target.deadline_s,
        is_tied_with_best=False,
        tied_configs=choice.tied,
        notes=notes,
        host_fraction=choice.host_fraction,
    )
