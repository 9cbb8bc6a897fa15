"""What a run spends besides its steps, as the trials of its model measured it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.cost.spot.job import SaveCost
from planner.modes import TECHNIQUES
from trials.api import Measurement, TrialConfig, WorkloadProfile

CHECKPOINT_BYTES_PER_S = 0.5 * 1024**3
"""Speed at which a checkpoint is written and read where no trial measured it: our assumption, between the 125
MiB/s that an AWS gp3 volume has unless more is paid for and the 1 to 3 GiB/s of a local NVMe disk."""

STATES_PER_PARAMETER = 3  # parameters and two moments of Adam, in fp32, where there is no trace
BYTES_PER_STATE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimes:
    """What a start takes after set-up; None where no trial ran."""

    start_up_s: float | None
    compile_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTimes:
    """A full checkpoint: the ways to save it, what loading takes, its size, and where that comes from."""

    savings: tuple[SaveCost, ...]
    load_s: float
    size_bytes: int
    source: str


def start_of(measurements: Sequence[Measurement], config: TrialConfig) -> StartTimes:
    """Seconds from a worker's start to a steady step: medians of the trials compiled, or not, as ``config``
    is.

    The first step holds compilation and lazy initialisation; what it takes beyond a steady one is theirs.
    """
    own = _start_part(config)
    alike = [trial for trial in measurements if _start_part(trial.config) == own]
    if not alike:
        return StartTimes(start_up_s=None, compile_s=None)
    return StartTimes(
        start_up_s=statistics.median(trial.startup_s for trial in alike),
        compile_s=statistics.median(max(0.0, trial.first_step_s - trial.step_time_s) for trial in alike),
    )


def _start_part(config: TrialConfig) -> tuple[str, ...]:
    """Of its techniques, those that change what the first step takes."""
    return tuple(one for one in config.techniques if TECHNIQUES[one].has_own_start)


def checkpoint_times(
    measurements: Sequence[Measurement],
    config: TrialConfig,
    profile: WorkloadProfile,
    bytes_per_s: float | None = None,
) -> CheckpointTimes:
    """What saving and loading a full checkpoint takes, in seconds, and its size in bytes.

    At the speed that the user states, else as a trial measured it, else at ``CHECKPOINT_BYTES_PER_S``.

    Of several trials that of the same parallelism and number of workers is nearest, then that of the same
    parallelism: sharded state is written by every worker, replicated state by one.
    """
    timed = [trial for trial in measurements if trial.checkpoint is not None]
    nearest = min(timed, key=lambda trial: _difference(trial.config, config), default=None)
    cost = nearest.checkpoint if nearest is not None else None
    size_bytes = state_bytes(profile) if cost is None else cost.size_bytes
    if cost is not None and bytes_per_s is None:
        return CheckpointTimes(
            savings=(
                SaveCost.synchronous(cost.save_s),
                SaveCost(stall_s=cost.async_stall_s, durable_s=max(cost.async_stall_s, cost.async_durable_s)),
            ),
            load_s=cost.load_s,
            size_bytes=size_bytes,
            source=f"measured in {cost.directory}",
        )
    speed = bytes_per_s or CHECKPOINT_BYTES_PER_S
    whose = "which is assumed" if bytes_per_s is None else "stated by you"
    return CheckpointTimes(
        savings=(SaveCost.synchronous(size_bytes / speed),),
        load_s=size_bytes / speed,
        size_bytes=size_bytes,
        source=f"size of the state at {speed / 1024**3:g} GiB/s, {whose}",
    )


def _difference(one: TrialConfig, other: TrialConfig) -> tuple[bool, bool, bool]:
    return (
        one.parallelism != other.parallelism,
        one.gpu_count != other.gpu_count,
        one.gpu != other.gpu,
    )


def state_bytes(profile: WorkloadProfile) -> int:
    """Parameters, buffers and optimizer state of the model: by its trace, else as Adam has them."""
    for trace in profile.traces:
        return trace.parameter_bytes + trace.buffer_bytes + trace.optimizer_bytes
    return profile.parameter_count * STATES_PER_PARAMETER * BYTES_PER_STATE


def power_w(measurements: Sequence[Measurement], config: TrialConfig) -> float | None:
    """Power of one device while it trains: of this configuration's trial, else over those on its device type.

    None where NVML reported none: a data sheet's maximum is no measurement.
    """

    def median_of(is_meant: Callable[[Measurement], bool]) -> float | None:
        known = [
            trial.telemetry.power_w
            for trial in measurements
            if is_meant(trial) and trial.telemetry is not None and trial.telemetry.power_w is not None
        ]
        return statistics.median(known) if known else None

    here = median_of(lambda one: one.config == config)
    return here if here is not None else median_of(lambda one: one.config.gpu == config.gpu)
