"""Where the time of a step goes, from the moments taken inside it and the passes timed after it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import fields

from trials.measurement import Measurement, Phases
from trials.measuring.clock import Clock
from trials.measuring.exposed_communication import SilentPasses
from trials.measuring.step import StepMarks
from trials.modes import PARALLELISMS
from trials.trial import TrialConfig


def passes_s(steps: Sequence[StepMarks], clock: Clock) -> list[float]:
    """Seconds of the forward and backward pass that ends each step."""
    return [clock.seconds(*one.micro[-1][1:]) for one in steps]


def phases_of(steps: Sequence[StepMarks], clock: Clock, config: TrialConfig, silent: SilentPasses) -> Phases:
    """What one rank spent in each phase of a step: means, which sum to the mean step."""
    rows = [_split(one, clock, config) for one in steps]
    columns = list(zip(*rows, strict=True))
    data_wait_s, host_to_device_s, silent_s, synchronised_s, optimizer_s = map(statistics.fmean, columns)
    sync_s: float | None = 0.0
    if config.gpu_count > 1:
        sync_s = None
        if silent.pass_s is not None:
            count = _synchronised_count(steps[0], config)
            sync_s = max(statistics.median(columns[3]) - count * silent.pass_s, 0.0)  # a median too
    pass_s = silent_s + synchronised_s - (sync_s or 0.0)
    return Phases(
        data_wait_s=data_wait_s,
        host_to_device_s=host_to_device_s,
        forward_backward_s=pass_s,
        gradient_sync_s=sync_s,
        optimizer_s=optimizer_s,
        other_s=0.0,
        launch_s=None if silent.launch_s is None else min(silent.launch_s * len(steps[0].micro), pass_s),
    )


def _synchronised_count(step: StepMarks, config: TrialConfig) -> int:
    """Micro batches that communicate: with FSDP2 each gathers shards, with DDP the last sends gradients."""
    return len(step.micro) if PARALLELISMS[config.parallelism].is_always_synchronised else 1


def _split(step: StepMarks, clock: Clock, config: TrialConfig) -> tuple[float, ...]:
    wait_s = move_s = 0.0
    passes = []
    before = step.start
    for fetched, moved, passed in step.micro:
        wait_s += clock.seconds(before, fetched)
        move_s += clock.seconds(fetched, moved)
        passes.append(clock.seconds(moved, passed))
        before = passed
    first = len(passes) - _synchronised_count(step, config)
    return wait_s, move_s, sum(passes[:first]), sum(passes[first:]), clock.seconds(before, step.end)


def spread_phases(measured: Mapping[int, Phases], measurement: Measurement) -> Phases:
    """The phases of the full step: on the line through two accumulation counts where it was not run itself.

    What they leave of the step time is ``other_s``; where they exceed it, since outliers are in them and not
    in the step time, they are scaled to it.
    """
    few, *rest = (_values(measured[one]) for one in sorted(measured))
    values = few
    if rest:
        low, high = sorted(measured)
        reach = (measurement.config.accumulation - low) / (high - low)
        values = {
            name: None if a is None or (b := rest[0][name]) is None else max(a + (b - a) * reach, 0.0)
            for name, a in few.items()
        }
    launch_s = values.pop("launch_s")
    step_s = measurement.step_time_s
    scale = min(step_s / max(_total(values), 1e-12), 1.0)
    scaled = {name: None if value is None else value * scale for name, value in values.items()}
    return Phases(
        **scaled,  # type: ignore[arg-type]  # only synchronisation may be None
        other_s=max(step_s - _total(scaled), 0.0),
        launch_s=None if launch_s is None else launch_s * scale,
    )


def own_work_s(measured: Mapping[int, Phases]) -> tuple[float, ...]:
    """One rank's seconds of a micro batch without waiting for other ranks; empty where that is not known."""
    count = min(measured)
    phases = measured[count]
    if phases.gradient_sync_s is None:
        return ()
    return ((phases.data_wait_s + phases.host_to_device_s + phases.forward_backward_s) / count,)


def disagreement_fraction(parts: Phases, mean_s: float, timed_s: float, wall_s: float) -> float:
    """How far the timers are from the whole, as a share of it: the larger of two checks.

    Args:
        parts: means over the steps of one series.
        mean_s: of the same steps.
        timed_s: sum of the steps' times, by the device's clock.
        wall_s: of the same steps, by the host's clock, from a synchronised device to a synchronised device.
    """
    return max(abs(_total(_values(parts) | {"launch_s": None}) / mean_s - 1), abs(timed_s / wall_s - 1))


def _values(phases: Phases) -> dict[str, float | None]:
    names = (one.name for one in fields(Phases) if one.name != "other_s")
    return {name: getattr(phases, name) for name in names}


def _total(values: Mapping[str, float | None]) -> float:
    return sum(value for value in values.values() if value is not None)
