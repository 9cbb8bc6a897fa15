"""The best configuration for a piece of hardware, and whether it was measured there.

On hardware where something was measured, only measured configurations compete, unless another one's high
end beats the best measured time: a prediction must win even at its worst. Elsewhere the least expected
time wins among what fits by the high end of peak memory; there only the largest micro batch that fits and
the sizes measured elsewhere are compared, since what a micro batch costs beyond its samples (launches,
weights read) is never negative. Of configurations that cannot be told apart the simplest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Protocol

from catalogs.gpus import DeviceKind, Gpu, Link
from planner.estimate.values import Basis, Estimate, Hardware
from planner.rule_out import RuledOut
from planner.target import Target
from planner.ties import complexity, is_tied_here
from trials.profile import WorkloadProfile
from trials.trial import Measurement, Outcome, TrialConfig

USABLE_MEMORY_FRACTION = 0.92
"""What ECC, the driver, the CUDA context and other processes leave of the nominal memory: a T4 reports
14.6 of 16 GiB and an L4 22.0 of 24; Ray ends workers on a host that is 95% full."""

SHORTLIST_COUNT = 4
"""On GPU instances that differ in vCPUs and network only, this many configurations are compared: the best on
the first of these instances, and what was measured. The two move all configurations nearly alike."""

Candidates = list[tuple[TrialConfig, Estimate]]  # with the peak memory that was held against the limit
ConfigsFor = Callable[[Target, Gpu, int, int, WorkloadProfile], tuple[TrialConfig, ...]]


class StepEstimator(Protocol):
    """What is asked of planner.estimate; None where nothing can be said."""

    def step_time_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Seconds per optimizer step."""

    def peak_memory_bytes(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        """Peak bytes of the fullest worker."""


class Miss(StrEnum):
    """Why an offer carries no plan."""

    NO_SPLIT = "the global batch size does not divide by its number of workers"
    ALL_FAILED = "every configuration failed in trials on it"
    TOO_SMALL = "the model does not fit its memory at any micro batch size"
    MEMORY_UNKNOWN = "nothing is known of the peak memory on it"
    SPEED_UNKNOWN = "nothing is known of the speed on it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Hardware as a plan would use it. Several worker counts only where workers share a CPU."""

    hardware: Hardware
    node_count: int
    worker_counts: tuple[int, ...]  # in all, over the nodes
    node_memory_bytes: int  # of one GPU, or of the host on CPU

    def memory_bytes(self, config: TrialConfig) -> int:
        """What one worker has: a GPU's memory, or its share of the host's."""
        if self.hardware.gpu.kind is DeviceKind.GPU:
            return self.node_memory_bytes
        return self.node_memory_bytes * self.node_count // config.gpu_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A configuration on a place, and those that cannot be told apart from it."""

    config: TrialConfig
    step_time_s: Estimate
    peak_memory_bytes: Estimate
    memory_bytes: int  # that one worker has
    tied: tuple[TrialConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChoice:
    """Why there is none; for `Miss.TOO_SMALL` with the least that would be needed."""

    miss: Miss
    needed_bytes: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured, as far as it decides which configurations are worth timing."""

    places: frozenset[tuple[str, int, int]]  # device, workers, nodes
    sizes: Mapping[tuple[bool, bool, str], frozenset[int]]  # micro batch sizes by arithmetic

    def sizes_worth_timing(self, config: TrialConfig) -> frozenset[int] | None:
        """Micro batch sizes of the technique of ``config`` to be compared with the largest; None: all."""
        if (config.gpu, config.gpu_count, config.node_count) in self.places:
            return None
        return self.sizes.get(_arithmetic(config), frozenset())

    def worker_counts(self, gpu: str, node_count: int) -> set[int]:
        """Worker counts measured on ``node_count`` nodes of ``gpu``."""
        return {workers for name, workers, nodes in self.places if (name, nodes) == (gpu, node_count)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """Chooses for one target, one workload and what was measured of it; remembers each place."""

    target: Target
    profile: WorkloadProfile
    estimator: StepEstimator
    configs_for: ConfigsFor
    ruled_out: RuledOut
    measured: Measured
    _choices: dict[Place, Choice | NoChoice] = field(default_factory=dict)
    _configs: dict[tuple[str, int, int], tuple[tuple[TrialConfig, ...], ...]] = field(default_factory=dict)
    _peaks: dict[tuple[TrialConfig, int | None], Estimate | None] = field(default_factory=dict)
    _candidates: dict[tuple[str, Link, int, int], Candidates | NoChoice] = field(default_factory=dict)

    def choose(self, place: Place) -> Choice | NoChoice:
        """The best configuration, or the reason why there is none."""
        if place not in self._choices:
            self._choices[place] = self._choose(place)
        return self._choices[place]

    def _choose(self, place: Place) -> Choice | NoChoice:
        hardware = place.hardware
        kin = (hardware.gpu.name, hardware.link, place.worker_counts[0], place.node_count)
        candidates = self._candidates.get(kin) or self._candidates_for(place)
        if hardware.gpu.kind is DeviceKind.GPU:
            self._candidates[kin] = candidates
        if isinstance(candidates, NoChoice):
            return candidates
        timed = [
            Choice(
                config=config,
                step_time_s=step_time_s,
                peak_memory_bytes=peak,
                memory_bytes=place.memory_bytes(config),
                tied=(),
            )
            for config, peak in candidates
            if (step_time_s := self.estimator.step_time_s(config, hardware)) is not None
        ]
        if not timed:
            return NoChoice(miss=Miss.SPEED_UNKNOWN)
        if kin in self._candidates:
            self._candidates[kin] = _shortlist(timed)
        return _best(timed)

    def _candidates_for(self, place: Place) -> Candidates | NoChoice:
        by_technique = [one for count in place.worker_counts for one in self._admissible(place, count)]
        if not by_technique:
            return NoChoice(miss=Miss.NO_SPLIT)
        if not any(by_technique):
            return NoChoice(miss=Miss.ALL_FAILED)
        return self._fitting(place, by_technique)

    def _admissible(self, place: Place, worker_count: int) -> tuple[tuple[TrialConfig, ...], ...]:
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
        self, place: Place, by_technique: Iterable[tuple[TrialConfig, ...]]
    ) -> Candidates | NoChoice:
        """What fits and is worth timing."""
        fitting: Candidates = []
        refused: list[tuple[float, int]] = []  # bytes needed, bytes there
        for configs in filter(None, by_technique):
            sizes = self.measured.sizes_worth_timing(configs[0])
            has_largest = False
            for config in configs:
                if has_largest and sizes is not None and config.micro_batch_size not in sizes:
                    continue
                peak, memory_bytes = self._peak(config, place.hardware), place.memory_bytes(config)
                if peak is None:
                    continue
                if _fits(peak, memory_bytes, place.hardware.gpu.kind):
                    fitting.append((config, peak))
                    has_largest = True
                else:
                    refused.append((peak.high, memory_bytes))
        if fitting:
            return fitting
        if not refused:
            return NoChoice(miss=Miss.MEMORY_UNKNOWN)
        needed_bytes, memory_bytes = min(refused, key=lambda one: one[0] / one[1])
        return NoChoice(miss=Miss.TOO_SMALL, needed_bytes=needed_bytes, memory_bytes=memory_bytes)

    def _peak(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        vcpus = hardware.vcpus if hardware.gpu.kind is DeviceKind.CPU else None
        key = (config, vcpus)
        if key not in self._peaks:
            self._peaks[key] = self.estimator.peak_memory_bytes(config, hardware)
        return self._peaks[key]


def measured_in(outcomes: Iterable[Outcome]) -> Measured:
    """Where and at which micro batch sizes ``outcomes`` hold measurements."""
    configs = [one.config for one in outcomes if isinstance(one, Measurement)]
    sizes: dict[tuple[bool, bool, str], frozenset[int]] = {}
    for one in configs:
        sizes[_arithmetic(one)] = sizes.get(_arithmetic(one), frozenset()) | {one.micro_batch_size}
    return Measured(
        places=frozenset((one.gpu, one.gpu_count, one.node_count) for one in configs),
        sizes=sizes,
    )


def _fits(peak: Estimate, memory_bytes: int, kind: DeviceKind) -> bool:
    """By the high end under the usable share; a GPU on which it was measured has shown that it fits."""
    if peak.basis is Basis.MEASURED and kind is DeviceKind.GPU:
        return True
    return peak.high <= USABLE_MEMORY_FRACTION * memory_bytes


def _shortlist(timed: list[Choice]) -> Candidates:
    in_order = sorted(timed, key=lambda one: one.step_time_s.expected)
    return [
        (one.config, one.peak_memory_bytes)
        for index, one in enumerate(in_order)
        if index < SHORTLIST_COUNT or one.step_time_s.basis is Basis.MEASURED
    ]


def _best(choices: list[Choice]) -> Choice:
    measured = [one for one in choices if one.step_time_s.basis is Basis.MEASURED]
    if measured:
        to_beat_s = min(one.step_time_s.expected for one in measured)
        contenders = [one for one in choices if one in measured or one.step_time_s.high < to_beat_s]
    else:
        contenders = choices
    fastest = min(contenders, key=lambda one: (one.step_time_s.expected, complexity(one.config)))
    tied = [one for one in contenders if is_tied_here(one.step_time_s, fastest.step_time_s)]
    simplest = min(tied, key=lambda one: (complexity(one.config), one.step_time_s.high))
    return Choice(
        config=simplest.config,
        step_time_s=simplest.step_time_s,
        peak_memory_bytes=simplest.peak_memory_bytes,
        memory_bytes=simplest.memory_bytes,
        tied=tuple(one.config for one in tied if one is not simplest),
    )


def _technique(config: TrialConfig) -> tuple[bool, bool, str, str]:
    return (config.is_compiled, config.is_checkpointed, config.parallelism, config.precision)


def _arithmetic(config: TrialConfig) -> tuple[bool, bool, str]:
    """The technique but for the parallelism, which leaves the work of a micro batch as it is."""
    return (config.is_compiled, config.is_checkpointed, config.precision)
