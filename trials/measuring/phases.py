"""Where the time of a step goes, from the moments taken inside it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from trials.measuring.clock import Clock
from trials.measuring.step import StepMarks
from trials.trial import Measurement, Phases


def phases_of(steps: Sequence[StepMarks], clock: Clock) -> Phases:
    """Medians over the steps of what one rank spent in each phase; they need not sum to a step."""
    rows = [_split(one, clock) for one in steps]
    data_wait_s, host_to_device_s, forward_backward_s, optimizer_s = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    return Phases(
        data_wait_s=data_wait_s,
        host_to_device_s=host_to_device_s,
        forward_backward_s=forward_backward_s,
        optimizer_s=optimizer_s,
        other_s=0.0,
    )


def _split(step: StepMarks, clock: Clock) -> tuple[float, float, float, float]:
    wait_s = move_s = pass_s = 0.0
    before = step.start
    for fetched, moved, passed in step.micro:
        wait_s += clock.seconds(before, fetched)
        move_s += clock.seconds(fetched, moved)
        pass_s += clock.seconds(moved, passed)
        before = passed
    return wait_s, move_s, pass_s, clock.seconds(before, step.end)


def spread_phases(measured: Mapping[int, Phases], measurement: Measurement) -> Phases:
    """The phases of the full step: on the line through two accumulation counts where it was not run itself.

    They are cross-checked with the whole: what they leave of the step time is ``other_s``, and where medians
    of parts exceed the median of the whole they are scaled to it.
    """
    few, *rest = (_values(measured[one]) for one in sorted(measured))
    values = few
    if rest:
        low, high = sorted(measured)
        reach = (measurement.config.accumulation - low) / (high - low)
        values = [max(a + (b - a) * reach, 0.0) for a, b in zip(few, rest[0], strict=True)]
    step_s = measurement.step_time_s
    scale = min(step_s / max(sum(values), 1e-12), 1.0)
    wait_s, move_s, pass_s, update_s = (value * scale for value in values)
    return Phases(
        data_wait_s=wait_s,
        host_to_device_s=move_s,
        forward_backward_s=pass_s,
        optimizer_s=update_s,
        other_s=max(step_s - wait_s - move_s - pass_s - update_s, 0.0),
    )


def _values(phases: Phases) -> list[float]:
    return [phases.data_wait_s, phases.host_to_device_s, phases.forward_backward_s, phases.optimizer_s]
