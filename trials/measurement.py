"""What a trial yields: raw times, memory, telemetry, and where they were taken. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from trials.extras import CheckpointCost, GradientNoise, LinkProbe
from trials.step_times import step_s
from trials.trial import Failure, Purpose, TrialConfig

FOREIGN_CPU_FRACTION_MAX = 0.1  # of the host's cores; a trial on CPU meets others beyond it


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where a measurement was taken; None where there is no such thing."""

    device_name: str  # what CUDA says, or the CPU's model name
    device_memory_bytes: int  # of one GPU, or of the host
    driver: str | None
    cuda: str | None
    torch: str
    ray: str | None
    python: str
    host_cpu_count: int
    node_count: int
    threads_per_worker: int | None  # on CPU: torch threads of each worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """NVML while the steps were timed, of one GPU: medians over samples unless the name says otherwise.

    Of several GPUs, `all_ranks`: medians over them, the hottest, every throttling and other process.
    """

    sample_count: int
    gpu_utilisation_fraction: float | None
    memory_utilisation_fraction: float | None
    sm_clock_hz: float | None
    sm_clock_max_hz: float | None
    power_w: float | None
    power_limit_w: float | None
    temperature_max_c: float | None
    energy_j: float | None
    throttle_reasons: tuple[str, ...]
    other_process_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Raw times of full optimizer steps at one accumulation count."""

    accumulation: int
    step_times_s: tuple[float, ...]  # in order; the slowest rank's, warm-up excluded

    @property
    def step_s(self) -> float:
        """Seconds of a step: the mean, without rare outliers."""
        return step_s(self.step_times_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Where the time of a step goes, in seconds per step (rank 0's means).

    All but ``launch_s`` sum to the step. None is not known: synchronisation cannot be told from the backward
    pass where a compiled step would have to be compiled again without it.
    """

    data_wait_s: float
    host_to_device_s: float
    forward_backward_s: float  # without gradient synchronisation where that is known
    gradient_sync_s: float | None = None  # exposed: what communication adds to forward and backward
    optimizer_s: float  # clipping, step, zero_grad
    other_s: float  # idle, and what no timer covers
    launch_s: float | None = None  # of forward_backward_s, what no smaller batch avoids: launches, weights

    @property
    def step_s(self) -> float:
        """Seconds of the whole step: the sum of its parts."""
        parts_s = self.data_wait_s + self.host_to_device_s + self.forward_backward_s + self.optimizer_s
        return parts_s + (self.gradient_sync_s or 0.0) + self.other_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakParts:
    """Where the memory of one step peaks: bytes allocated, on the fullest rank.

    The passes' peak is ``base_bytes`` and a part that is proportional to the micro batch size; the update's
    grows by the input at most.
    """

    base_bytes: int  # as the last micro batch begins: parameters, optimizer state, gradients so far
    passes_bytes: int  # forward and backward
    update_bytes: int  # clipping and the optimizer's step


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a trial yields. Statistics are derived from the raw times kept here."""

    config: TrialConfig
    series: tuple[Series, ...]  # one, at config.accumulation; or two at smaller counts (large accumulation)
    is_steady: bool  # the 95% half-width of the mean fell under 2% before the cap
    half_width_fraction: float  # of the last series
    warmup_step_count: int
    startup_s: float  # building model, data, wrapper, until the first step begins
    first_step_s: float  # with lazy initialisation and compilation
    trial_s: float  # wall time that the devices were held
    peak_allocated_bytes: tuple[int, ...]  # by rank
    peak_reserved_bytes: tuple[int, ...] | None  # by rank; None on CPU
    losses: tuple[float, ...]  # of the first steps, mean over the ranks, warm-up included
    phases: Phases | None
    telemetry: Telemetry | None  # of all ranks' GPUs; None without NVML
    environment: Environment
    warnings: tuple[str, ...] = ()  # from trials.measuring.quality, in words
    checkpoint: CheckpointCost | None = None  # None where another trial of the shape has it, or a warning why
    links: LinkProbe | None = None  # of two workers or more, by the first trial of so many
    noise: GradientNoise | None = None  # where the global batch size may be chosen
    foreign_cpu_fraction: float | None = None  # of a host's cores, that others used; of the fullest host
    own_work_s: tuple[
        float, ...
    ] = ()  # of a micro batch, by rank, without waiting for others; empty: unknown
    extras_s: float = 0.0  # of trial_s, for what was measured besides the steps
    peak_parts: PeakParts | None = None  # of one step more
    usable_memory_bytes: int | None = None  # reserved and left free by the driver, the least of all ranks
    purpose: Purpose = Purpose.SEARCH

    @property
    def is_interpolated(self) -> bool:
        """Whether the full step was computed from two smaller accumulation counts."""
        return len(self.series) > 1

    @property
    def disturbance(self) -> str:
        """What makes the times doubtful, in words: "" for nothing."""
        telemetry, foreign_fraction = self.telemetry, self.foreign_cpu_fraction or 0.0
        is_on_cpu = self.environment.threads_per_worker is not None
        is_shared = telemetry is not None and telemetry.other_process_count > 0
        is_shared |= is_on_cpu and foreign_fraction > FOREIGN_CPU_FRACTION_MAX
        found = (
            "" if self.is_steady else "unsteady",
            "throttled" if telemetry is not None and telemetry.throttle_reasons else "",
            "disturbed by other processes" if is_shared else "",
        )
        return " and ".join(one for one in found if one)

    @property
    def step_time_s(self) -> float:
        """Seconds per optimizer step: the mean, or the line through two accumulation counts.

        The line has a fixed part of at least zero (optimizer, synchronisation) and rises. Where noise says
        otherwise (such a measurement is not steady, and says so) the step is taken as proportional.
        """
        if not self.is_interpolated:
            return self.series[0].step_s
        few, many = sorted(self.series, key=lambda one: one.accumulation)
        slope_s = (many.step_s - few.step_s) / (many.accumulation - few.accumulation)
        proportional_s = many.step_s / many.accumulation
        if not 0 < slope_s < proportional_s:
            slope_s = proportional_s
        return many.step_s + slope_s * (self.config.accumulation - many.accumulation)

    @property
    def throughput_per_s(self) -> float:
        """Samples per second over all workers."""
        return self.config.global_batch_size / self.step_time_s

    @property
    def peak_memory_bytes(self) -> int:
        """The largest rank's peak: reserved where the allocator reserves, else allocated."""
        return max(self.peak_reserved_bytes or self.peak_allocated_bytes)

    @property
    def peak_parts_as_reserved(self) -> PeakParts | None:
        """The parts in the count of ``peak_memory_bytes``, which adds what the allocator cannot use."""
        if self.peak_parts is None:
            return None
        whole = self.peak_memory_bytes
        factor = whole / max(self.peak_allocated_bytes)
        parts = (self.peak_parts.base_bytes, self.peak_parts.passes_bytes, self.peak_parts.update_bytes)
        base, passes, update = (min(whole, int(one * factor)) for one in parts)
        return PeakParts(base_bytes=base, passes_bytes=passes, update_bytes=update)


Outcome = Measurement | Failure
