"""What configurations cost and have: the target run by the offers, a trial by the devices at hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catalogs.gpus import DeviceKind, Gpu
from catalogs.offers import Offer
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.cost.bill.price_run import Pricer
from planner.cost.hours import SECONDS_PER_HOUR, held_usd, with_waiting
from planner.estimate import Estimate, Estimator, Hardware
from planner.estimate.interval.lognormal import spreads_to
from planner.estimate.transfer.cross_workload import CrossWorkloadRatios
from planner.plans.plan import hardware_of
from planner.search.acquisition import Candidate
from planner.search.limits import TargetRun
from planner.target import Target
from trials.api import DeviceGroup, Measurement, Purpose, TrialConfig

STARTUP_S = 20.0  # of a trial before any was seen
_TIMED_ACCUMULATION = 4  # a large accumulation is timed at two small counts, together this
_CONFIRMED_MICRO_BATCHES = 100  # on the longest batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What the search prices with: the target, the offers that the user admits, the devices at hand."""

    target: Target
    offers: tuple[Offer, ...]
    gpus: Mapping[str, Gpu]
    groups: tuple[DeviceGroup, ...]
    usd_per_hour: Mapping[str, float | None]  # of one device at hand (a GPU, or the CPU machine), by GPU name
    confidence: float = 0.9
    assumptions: CostAssumptions = field(default_factory=CostAssumptions)
    cross_workload: Mapping[tuple[str, str], CrossWorkloadRatios] = field(
        default_factory=dict
    )  # other studies, by chips

    @property
    def is_priced(self) -> bool:
        """Whether a run is told in dollars; else in device hours, as no type at hand has an offer."""
        priced = {one.gpu for one in self.offers}
        return any(group.gpu in priced for group in self.groups)

    def group(self, config: TrialConfig) -> DeviceGroup | None:
        """The devices at hand that ``config`` runs on; None where they are not there, or left."""
        return next((one for one in self.groups if one.gpu == config.gpu), None)

    def hardware_at_hand(self, config: TrialConfig) -> Hardware:
        """Of the devices at hand; without any, of the bare GPU type."""
        group, gpu = self.group(config), self.gpus[config.gpu]
        vcpus = None if group is None else group.nodes[0].cpu_count
        return Hardware(gpu=gpu, link=gpu.link, vcpus=vcpus)

    def memory_bytes(self, group: DeviceGroup, config: TrialConfig, estimator: Estimator) -> int:
        """What a worker may use of the smallest device of the group."""
        gpu, smallest = self.gpus[config.gpu], min(node.device_memory_bytes for node in group.nodes)
        if not group.is_cpu:  # NVML's total holds what the driver keeps, the catalog's does not
            smallest = min(smallest, gpu.memory_bytes)
        return estimator.usable_memory_bytes(config, gpu, smallest)

    def device_count(self, config: TrialConfig) -> int:
        """GPUs of a configuration, or CPU machines, whose workers share them."""
        return config.node_count if self._is_cpu(config) else config.gpu_count

    def held_count(self, config: TrialConfig, worker_count_max: int) -> int:
        """Devices that are held while ``config`` runs: its group has room for the widest trial to come."""
        group, own = self.group(config), self.device_count(config)
        if group is None or group.is_cpu:
            return own
        room = max(node.gpu_count for node in group.nodes) * config.node_count
        return max(own, min(worker_count_max, room))

    def held_usd(self, gpu: str, held_s: float, device_count: int) -> float | None:
        """Dollars for holding devices of a type at hand; None where they have no price."""
        return held_usd(held_s, device_count, self.usd_per_hour.get(gpu))

    def run(self, config: TrialConfig, estimator: Estimator, pricer: Pricer) -> TargetRun | None:
        """The target run on the best offer that carries the configuration.

        In dollars, with the waiting where an hour of it has a value; in device hours when none of the GPU
        types at hand has an offer; None when only this one lacks an offer, or nothing can be said.
        """
        carriers = [offer for offer in self.offers if self._carries(offer, config)]
        found = [self._run_on(offer, config, estimator, pricer) for offer in carriers]
        runs = [one for one in found if one is not None]
        if runs:
            return min(runs, key=lambda one: one.order(self.confidence))
        step = estimator.step_time_s(config, self.hardware_at_hand(config))
        if self.is_priced or step is None:
            return None
        held_s = pricer.held_s(config, step)
        device_hours = held_s.scaled(self.device_count(config) / SECONDS_PER_HOUR)
        return TargetRun(cost=device_hours, limit=self._limit((held_s, self.target.deadline_s)))

    def candidate(
        self,
        config: TrialConfig,
        estimator: Estimator,
        run: TargetRun | None,
        trial_cost_usd: float | None,
        trial_s: float,
    ) -> Candidate | None:
        """What is believed of a configuration; None where its devices are not there."""
        group = self.group(config)
        if group is None:
            return None
        return Candidate(
            config=config,
            run_cost=None if run is None else run.cost,
            limit=math.inf if run is None else run.limit,
            trial_cost_usd=trial_cost_usd,
            trial_s=trial_s,
            memory=estimator.peak_memory_bytes(config, self.hardware_at_hand(config)),
            memory_bytes=self.memory_bytes(group, config, estimator),
        )

    def _is_cpu(self, config: TrialConfig) -> bool:
        return self.gpus[config.gpu].kind is DeviceKind.CPU

    def _carries(self, offer: Offer, config: TrialConfig) -> bool:
        """Whether ``node_count`` instances of the offer have the devices; one rents whole instances."""
        if offer.gpu != config.gpu:
            return False
        return self._is_cpu(config) or offer.gpu_count * config.node_count >= config.gpu_count

    def _run_on(
        self, offer: Offer, config: TrialConfig, estimator: Estimator, pricer: Pricer
    ) -> TargetRun | None:
        step = estimator.step_time_s(config, hardware_of(offer, self.gpus[offer.gpu], config.node_count))
        if step is None:
            return None
        run = pricer.price(offer, config.node_count, config, step)
        if run is None:
            return None
        cost_usd, target = run.bill.breakdown.run_usd, self.target
        return TargetRun(
            cost=with_waiting(cost_usd, run.duration_s, target.hour_value_usd),
            limit=self._limit((cost_usd, target.budget_usd), (run.duration_s, target.deadline_s)),
        )

    def _limit(self, *limits: tuple[Estimate, float | None]) -> float:
        """Spreads above the median at which the first of the limits is broken."""
        reached = (
            spreads_to(estimate, limit, self.confidence) for estimate, limit in limits if limit is not None
        )
        return min(reached, default=math.inf)


def expected_trial_s(
    config: TrialConfig, purpose: Purpose, step_s: float | None, seen: Sequence[Measurement]
) -> float:
    """Wall time that a trial will hold its devices, with a step of ``step_s`` (None: unknown)."""
    startup_s = max((one.startup_s + one.first_step_s for one in seen), default=STARTUP_S)
    if step_s is None:
        return startup_s + STARTUP_S
    whole_steps = float(purpose.expected_step_count)
    if purpose is Purpose.CONFIRM:
        whole_steps += _CONFIRMED_MICRO_BATCHES / config.accumulation
    else:
        whole_steps *= min(1.0, _TIMED_ACCUMULATION / config.accumulation)
    return startup_s + step_s * whole_steps
