"""A plan: one offer, so many instances of it, the best configuration on them, and what the run then costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from catalogs.gpus import DeviceKind, Gpu, Link
from catalogs.offers import Offer
from planner.cost.bill.allin import AllInBill
from planner.cost.bill.energy import Energy
from planner.cost.bill.price_run import Pricer, Terms
from planner.cost.bill.priced import PricedRun, SpotRun
from planner.cost.hours import Breakdown, hourly_usd, with_waiting
from planner.cost.spot.job import SaveCost
from planner.estimate.values import Basis, Estimate, Hardware
from planner.filters import Filters
from planner.plans.candidates import Measured, Miss, NoConfig
from planner.plans.choose_config import ChosenConfig, ConfigChooser
from planner.plans.plan_hardware import PlanHardware
from planner.plans.ties import NEGLIGIBLE_FRACTION, is_same_within
from trials.api import TrialConfig

__all__ = ["Plan", "Terms", "filtered", "hardware_of", "is_tied", "plans_of"]

INSTANCE_COUNTS = (1, 2, 4, 8)
CPU_INSTANCE_COUNTS = (1,)  # CPU instances come in every size: more cores means a larger one, not several

HOST_BOUND_FRACTION = 0.5  # from which the host takes longer than the GPU
CPU_NOTE = "no GPU: the worker processes share the instance's vCPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to rent, how to configure it, and what comes of it.

    ``cost_usd`` is the run's bill; ``total_usd`` has the sweep in it and is what the budget must cover. The
    limits are held against the high ends, on spot the deadline against the chance of missing it.
    ``is_tied_with_best`` means: cannot be told apart from the best.
    """

    rank: int  # from 1, by expected weighed_usd
    offer: Offer
    instance_count: int
    config: TrialConfig
    hardware: Hardware
    step_time_s: Estimate
    throughput_per_s: Estimate  # samples
    duration_s: Estimate  # from the first request to the end
    held_s: Estimate  # that the instances are held for: less than that where spot capacity is waited for
    cost_usd: Estimate
    weighed_usd: Estimate  # cost_usd, and the waiting where an hour of it has a value
    total_usd: Estimate
    bill: AllInBill  # adds up to total_usd
    checkpoint_interval_s: float
    saving: SaveCost
    spot: SpotRun | None  # None on demand
    energy: Energy | None  # None where no power was measured
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
    def breakdown(self) -> Breakdown:
        """Terms that add up to ``total_usd``."""
        return self.bill.breakdown

    @property
    def is_cost_known(self) -> bool:
        """False on a spot instance of which nobody knows how often it is interrupted."""
        return self.spot is None or self.spot.is_rate_known

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


def is_tied(one: Plan, other: Plan) -> bool:
    """Whether the costs of two plans cannot be told apart.

    The same configuration on the same device shares its error, so there the prices tell them apart.
    """
    if one.config == other.config:
        low, high = sorted((one.weighed_usd.expected, other.weighed_usd.expected))
        return high <= low * (1 + NEGLIGIBLE_FRACTION)
    return is_same_within(one.weighed_usd, other.weighed_usd)


def repriced(
    plan: Plan, pricer: Pricer, *, price_factor: float = 1.0, step_factor: float = 1.0
) -> Plan | None:
    """The plan as it would be at another price or speed, all else equal; its rank stays.

    None where interruptions would let it make no headway.
    """
    offer = replace(plan.offer, price_usd_per_hour=plan.offer.price_usd_per_hour * price_factor)
    step_time_s = plan.step_time_s.scaled(step_factor)
    run = pricer.price(offer, plan.instance_count, plan.config, step_time_s)
    if run is None:
        return None
    choice = ChosenConfig(
        config=plan.config,
        step_time_s=step_time_s,
        peak_memory_bytes=plan.peak_memory_bytes,
        memory_bytes=plan.memory_bytes,
        tied=plan.tied_configs,
    )
    return replace(
        _plan(offer, plan.instance_count, plan.hardware, choice, run, pricer.terms), rank=plan.rank
    )


def plans_of(offer: Offer, gpu: Gpu, chooser: ConfigChooser, pricer: Pricer) -> Iterator[Plan | NoConfig]:
    """A plan, or why there is none, for every instance count."""
    counts = CPU_INSTANCE_COUNTS if gpu.kind is DeviceKind.CPU else INSTANCE_COUNTS
    for instance_count in counts:
        place = _place(offer, gpu, instance_count, chooser.candidates.measured)
        choice = chooser.choose(place)
        if isinstance(choice, NoConfig):
            yield choice
        else:
            run = pricer.price(offer, instance_count, choice.config, choice.step_time_s)
            if run is None:
                yield NoConfig(miss=Miss.NO_HEADWAY)
            else:
                yield _plan(offer, instance_count, place.hardware, choice, run, pricer.terms)


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


def _place(offer: Offer, gpu: Gpu, instance_count: int, measured: Measured) -> PlanHardware:
    is_cpu = gpu.kind is DeviceKind.CPU
    worker_counts = {offer.gpu_count * instance_count}
    if is_cpu:
        worker_counts |= measured.worker_counts(gpu.name, instance_count)
    return PlanHardware(
        hardware=hardware_of(offer, gpu, instance_count),
        node_count=instance_count,
        worker_counts=tuple(sorted(worker_counts)),
        node_memory_bytes=offer.memory_bytes if is_cpu else gpu.memory_bytes,
    )


def _plan(
    offer: Offer, instance_count: int, hardware: Hardware, choice: ChosenConfig, run: PricedRun, terms: Terms
) -> Plan:
    target = terms.target
    total_usd = run.bill.breakdown.total_usd
    return Plan(
        rank=0,
        offer=offer,
        instance_count=instance_count,
        config=choice.config,
        hardware=hardware,
        step_time_s=choice.step_time_s,
        throughput_per_s=choice.step_time_s.inverse(float(target.global_batch_size)),
        duration_s=run.duration_s,
        held_s=run.held_s,
        cost_usd=run.bill.breakdown.run_usd,
        weighed_usd=with_waiting(run.bill.breakdown.run_usd, run.duration_s, target.hour_value_usd),
        total_usd=total_usd,
        bill=run.bill,
        checkpoint_interval_s=run.checkpoint_interval_s,
        saving=run.saving,
        spot=run.spot,
        energy=run.energy,
        peak_memory_bytes=choice.peak_memory_bytes,
        memory_bytes=choice.memory_bytes,
        is_within_budget=target.budget_usd is None or total_usd.high <= target.budget_usd,
        is_within_deadline=_is_within_deadline(run, terms),
        is_tied_with_best=False,
        tied_configs=choice.tied,
        notes=(CPU_NOTE,) if hardware.gpu.kind is DeviceKind.CPU else (),
        host_fraction=choice.host_fraction,
    )


def _is_within_deadline(run: PricedRun, terms: Terms) -> bool:
    deadline_s = terms.target.deadline_s
    if deadline_s is None:
        return True
    if run.spot is not None and run.spot.miss_probability is not None:
        return run.spot.miss_probability <= terms.tail_fraction
    return run.duration_s.high <= deadline_s
