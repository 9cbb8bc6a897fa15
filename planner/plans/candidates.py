"""Which configurations are worth timing on a piece of hardware: what fits, thinned by what is known.

On hardware where something was measured all that fits is compared. Elsewhere the largest micro batch that
fits is, since what a micro batch costs beyond its samples (launches, weights read) is never negative, and
beside it a size that was measured, which is better known. What separates precisions on one GPU separates
them on several, and what separates configurations at one number of vCPUs does at another: places of one
kind share a shortlist, so that the whole catalog is compared in about a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Protocol

from catalogs.gpus import DeviceKind, Gpu, Link
from planner.estimate.memory.usable_memory import is_fitting
from planner.estimate.values import Basis, Estimate, Hardware
from planner.modes.chosen import Arithmetic, arithmetic_of, switches
from planner.plans.plan_hardware import PlanHardware
from planner.plans.rule_out import RuledOut
from planner.plans.ties import NEGLIGIBLE_FRACTION
from planner.target import Target
from trials.api import Measurement, Outcome, TrialConfig, WorkloadProfile

SHORTLIST_COUNT = 2  # configurations compared on GPU instances that differ in vCPUs and network only
PRECISION_COUNT = 2  # precisions, compiled or not, compared on further counts of a GPU type

Candidate = tuple[TrialConfig, Estimate]  # with the peak memory that was held against the limit
ConfigsFor = Callable[[Target, Gpu, int, int, WorkloadProfile], tuple[TrialConfig, ...]]


class StepEstimator(Protocol):
    """What is asked of planner.estimate; None where nothing can be said."""

    def step_time_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Seconds per optimizer step."""

    def peak_memory_bytes(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Peak bytes of the fullest worker."""

    def usable_memory_bytes(self, config: TrialConfig, gpu: Gpu, memory_bytes: int) -> int:
        """Bytes that a worker may reserve of a GPU's or a host's memory."""

    def host_fraction(self, config: TrialConfig, hardware: Hardware) -> float | None:
        """Expected share of the step that no faster GPU shortens."""


class Miss(StrEnum):
    """Why an offer carries no plan."""

    NO_SPLIT = "the global batch size does not divide by its number of workers"
    ALL_FAILED = "every configuration failed in trials on it"
    TOO_SMALL = "the model does not fit its memory at any micro batch size"
    MEMORY_UNKNOWN = "nothing is known of the peak memory on it"
    SPEED_UNKNOWN = "nothing is known of the speed on it"
    NO_HEADWAY = "interrupted so often that the run would make no headway"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoConfig:
    """Why there is none; for `Miss.TOO_SMALL` with the least that would be needed."""

    miss: Miss
    needed_bytes: float | None = None
    memory_bytes: int | None = None

    @property
    def shortage(self) -> float:
        """Of memory: what is needed over what is there."""
        return (self.needed_bytes or 0.0) / (self.memory_bytes or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured, as far as it decides which configurations are worth timing."""

    places: frozenset[tuple[str, int, int]]  # device, workers, nodes
    sizes: Mapping[tuple[tuple[str, ...], str], frozenset[int]]  # micro batch sizes by arithmetic

    def is_at(self, config: TrialConfig) -> bool:
        """Whether anything was measured on the devices of ``config``."""
        return (config.gpu, config.gpu_count, config.node_count) in self.places

    def has_size(self, config: TrialConfig) -> bool:
        """Whether its micro batch size was measured with its arithmetic, on any device."""
        return config.micro_batch_size in self.sizes.get(_micro_batch_work(config), frozenset())

    def worker_counts(self, gpu: str, node_count: int) -> set[int]:
        """Worker counts measured on ``node_count`` nodes of ``gpu``."""
        return {workers for name, workers, nodes in self.places if (name, nodes) == (gpu, node_count)}


def measured_in(outcomes: Iterable[Outcome]) -> Measured:
    """Where and at which micro batch sizes ``outcomes`` hold measurements."""
    configs = [one.config for one in outcomes if isinstance(one, Measurement)]
    sizes: dict[tuple[tuple[str, ...], str], frozenset[int]] = {}
    for one in configs:
        sizes[_micro_batch_work(one)] = sizes.get(_micro_batch_work(one), frozenset()) | {
            one.micro_batch_size
        }
    return Measured(
        places=frozenset((one.gpu, one.gpu_count, one.node_count) for one in configs),
        sizes=sizes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """For one target, one workload and what was measured of it; remembers what it has seen."""

    target: Target
    profile: WorkloadProfile
    estimator: StepEstimator
    configs_for: ConfigsFor
    ruled_out: RuledOut
    measured: Measured
    _configs: dict[tuple[str, int, int], tuple[tuple[TrialConfig, ...], ...]] = field(default_factory=dict)
    _peaks: dict[tuple[TrialConfig, int | None], Estimate | None] = field(default_factory=dict)
    _by_kin: dict[tuple[str, Link, int, int], Sequence[Candidate] | NoConfig] = field(default_factory=dict)
    _precisions: dict[str, frozenset[Arithmetic]] = field(default_factory=dict)

    def of(self, place: PlanHardware) -> Sequence[Candidate] | NoConfig:
        """What fits and is worth timing, or why there is nothing."""
        if place.hardware.gpu.kind is DeviceKind.CPU:
            return self._of(place)
        kin = _kin(place)
        if kin not in self._by_kin:
            self._by_kin[kin] = self._of(place)
        return self._by_kin[kin]

    def learn(self, place: PlanHardware, times: Sequence[tuple[Candidate, Estimate]]) -> None:
        """Shorten what is compared on the place's kin, and on other counts of its GPU type."""
        gpu = place.hardware.gpu
        if gpu.kind is DeviceKind.CPU:
            return
        in_order = sorted(times, key=lambda one: one[1].expected)
        self._by_kin[_kin(place)] = [
            candidate
            for index, (candidate, time) in enumerate(in_order)
            if index < SHORTLIST_COUNT or time.basis is not Basis.PREDICTED
        ]
        if gpu.name not in self._precisions:
            close_s = in_order[0][1].expected * (1 + NEGLIGIBLE_FRACTION)
            ranked = dict.fromkeys(arithmetic_of(config) for (config, _), _ in in_order)
            close = {arithmetic_of(config) for (config, _), time in in_order if time.expected <= close_s}
            self._precisions[gpu.name] = frozenset({*list(ranked)[:PRECISION_COUNT], *close})

    def _of(self, place: PlanHardware) -> Sequence[Candidate] | NoConfig:
        by_technique = [one for count in place.worker_counts for one in self._admissible(place, count)]
        if not by_technique:
            return NoConfig(miss=Miss.NO_SPLIT)
        by_technique = [one for one in by_technique if one]
        if not by_technique:
            return NoConfig(miss=Miss.ALL_FAILED)
        shortlist = self._precisions.get(place.hardware.gpu.name)
        if shortlist is not None:
            short = [
                one
                for one in by_technique
                if self.measured.is_at(one[0]) or arithmetic_of(one[0]) in shortlist
            ]
            found = self._fitting(place, short)
            if not isinstance(found, NoConfig):
                return found
        return self._fitting(place, by_technique)

    def _admissible(self, place: PlanHardware, worker_count: int) -> tuple[tuple[TrialConfig, ...], ...]:
        """By technique, largest micro batch first, without what trials ruled out."""
        gpu = place.hardware.gpu
        key = (gpu.name, worker_count, place.node_count)
        if key not in self._configs:
            found = self.configs_for(self.target, gpu, worker_count, place.node_count, self.profile)
            groups = groupby(sorted(found, key=_technique), key=_technique)
            self._configs[key] = tuple(
                tuple(
                    one
                    for one in sorted(group, key=lambda one: -one.micro_batch_size)
                    if not self.ruled_out.has(one)
                )
                for _, group in groups
            )
        return self._configs[key]

    def _fitting(
        self, place: PlanHardware, by_technique: Iterable[tuple[TrialConfig, ...]]
    ) -> Sequence[Candidate] | NoConfig:
        fitting: list[Candidate] = []
        refused: list[tuple[float, int]] = []  # bytes needed, bytes there
        kind = place.hardware.gpu.kind
        for configs in by_technique:
            is_measured = self.measured.is_at(configs[0])
            found: list[Candidate] = []
            for config in configs:
                if found and not is_measured and not self.measured.has_size(config):
                    continue
                peak = self._peak(config, place.hardware)
                if peak is None:
                    continue
                memory_bytes = self.usable_memory_bytes(place, config)
                if is_fitting(peak, memory_bytes, kind):
                    found.append((config, peak))
                else:
                    refused.append((peak.high, memory_bytes))
                if len(found) > 1 and not is_measured and kind is DeviceKind.GPU:
                    break
            fitting.extend(found)
        if fitting:
            return fitting
        if not refused:
            return NoConfig(miss=Miss.MEMORY_UNKNOWN)
        needed_bytes, memory_bytes = min(refused, key=lambda one: one[0] / one[1])
        return NoConfig(miss=Miss.TOO_SMALL, needed_bytes=needed_bytes, memory_bytes=memory_bytes)

    def usable_memory_bytes(self, place: PlanHardware, config: TrialConfig) -> int:
        """What one worker has there."""
        return self.estimator.usable_memory_bytes(config, place.hardware.gpu, place.node_memory_bytes)

    def _peak(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        vcpus = hardware.vcpus if hardware.gpu.kind is DeviceKind.CPU else None
        key = (config, vcpus)
        if key not in self._peaks:
            self._peaks[key] = self.estimator.peak_memory_bytes(config, hardware)
        return self._peaks[key]


def _kin(place: PlanHardware) -> tuple[str, Link, int, int]:
    """Places that differ in vCPUs and network only."""
    return (place.hardware.gpu.name, place.hardware.link, place.worker_counts[0], place.node_count)


def _technique(config: TrialConfig) -> tuple[tuple[int, ...], tuple[bool, ...], str, str]:
    loading = (config.loader_worker_count, config.loader_prefetch_count, config.is_pinned)
    known = tuple(-1 if one is None else int(one) for one in loading)
    return (known, switches(config.techniques), config.parallelism, config.precision)


def _micro_batch_work(config: TrialConfig) -> tuple[tuple[str, ...], str]:
    """The technique but for the parallelism, which leaves the work of a micro batch as it is."""
    return (config.techniques, config.precision)
