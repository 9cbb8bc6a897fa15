"""Everything that a report shows, as one value; every output is made from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from catalogs.gpus import DeviceKind
from planner.estimate.memory.usable_memory import usable_memory_bytes
from planner.estimate.scaling.probe import LinkFinding
from planner.estimate.time.bottleneck import Bottleneck
from planner.estimate.values import Basis, Estimate
from planner.plans.batch_size import BatchChoice
from planner.plans.numerics_check import Guard
from planner.plans.recommendation import Recommendation
from planner.plans.space import Exclusion
from trials.api import Environment, Failure, Measurement, Outcome, TrialConfig, Workload, WorkloadProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """A finished trial in its order."""

    number: int
    outcome: Outcome
    cost_usd: float | None  # None where its devices have no price
    peak_fraction: float | None = None  # of the devices' peak FLOP/s; None for a failure or where unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """What measuring took; None where it is not known."""

    spent_usd: float | None
    wall_s: float | None
    stopped_because: str | None  # None while it runs, or after it was killed


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One configuration on a curve."""

    config: TrialConfig
    throughput_per_s: Estimate | None
    peak_memory_bytes: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """An estimated step time and peak memory over the micro batch size, drawn beside what was measured.

    The configurations differ in micro batch size and accumulation only, ascending by micro batch size.
    """

    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The recommendation and all it rests on."""

    recommendation: Recommendation
    study: str
    workload: Workload
    profile: WorkloadProfile
    trials: tuple[TrialRecord, ...]
    exclusions: tuple[Exclusion, ...]
    sweep: SweepSummary
    generated_at: datetime
    planner_version: str
    notes: tuple[str, ...] = ()  # what the sweep had to say about the cluster
    curves: tuple[Curve, ...] = ()
    slow_links: tuple[LinkFinding, ...] = ()  # between the GPUs of trials
    guards: tuple[Guard, ...] = ()
    batch: BatchChoice | None = None  # where the global batch size was the planner's to choose
    binding: Bottleneck | None = None  # of the winner's configuration, else of the fastest that was measured

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Of the trials, in order."""
        return tuple(one.outcome for one in self.trials if isinstance(one.outcome, Measurement))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Of the trials, in order."""
        return tuple(one.outcome for one in self.trials if isinstance(one.outcome, Failure))

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Where measurements were taken, each once."""
        return tuple(dict.fromkeys(one.environment for one in self.measurements))

    def memory_limit_bytes(self, one: Measurement) -> int:
        """What each worker of a measurement could reserve."""
        kind = DeviceKind.GPU if one.environment.threads_per_worker is None else DeviceKind.CPU
        total_bytes = one.environment.device_memory_bytes
        return usable_memory_bytes(kind, total_bytes, one.config, one.usable_memory_bytes)

    def measured_throughput(self, one: Measurement) -> Estimate:
        """Samples per second with the 95% interval of the mean step time."""
        per_s, half = one.throughput_per_s, min(0.5, one.half_width_fraction)
        return Estimate(low=per_s / (1 + half), expected=per_s, high=per_s / (1 - half), basis=Basis.MEASURED)

    def measured_peak(self, one: Measurement) -> Estimate:
        """Peak bytes of the fullest worker."""
        peak = float(one.peak_memory_bytes)
        return Estimate(low=peak, expected=peak, high=peak, basis=Basis.MEASURED)
