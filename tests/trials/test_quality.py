from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from tests.builders import make_telemetry
from trials.measurement import Phases
from trials.measuring.quality import (
    drift_fraction,
    has_warmed_up,
    warnings_of,
    warnings_of_ranks,
)

STEADY = tuple(0.1 + 0.0001 * (index % 5) for index in range(20))
PHASES = Phases(
    data_wait_s=0.001, host_to_device_s=0.001, forward_backward_s=0.08, optimizer_s=0.01, other_s=0.008
)
QUIET = make_telemetry()


def warnings(times: tuple[float, ...], phases: Phases = PHASES) -> tuple[str, ...]:
    return warnings_of(times, limit_fraction=0.02, phases=phases)


def test_warm_up_ends_when_two_windows_agree() -> None:
    falling = [1.0, 0.8, 0.6, 0.5, 0.45, 0.4]
    assert not has_warmed_up(falling)
    assert not has_warmed_up([0.4] * 5)
    assert has_warmed_up([*falling, 0.4, 0.41, 0.4, 0.4, 0.41, 0.4])


def test_steady_steps_give_no_warning() -> None:
    assert warnings(STEADY) == ()
    assert warnings_of_ranks([QUIET], [0.0], [0.1]) == warnings_of_ranks([None, None], [None], []) == ()


def test_unsteady_steps_are_named_with_their_width() -> None:
    times = tuple(0.1 * (1 + 0.3 * (index % 2)) for index in range(10))
    (warning,) = warnings(times)
    assert warning.startswith("unsteady: after 10 steps the step time is known to ±9.8%, not ±2%")


def test_drift_is_named_with_its_direction() -> None:
    slower = tuple(0.1 + 0.002 * index for index in range(30))
    assert drift_fraction(slower) == pytest.approx(0.04 / statistics.median(slower))
    assert any(one.startswith("drift: steps became 31% slower") for one in warnings(slower))
    assert any("faster" in one for one in warnings(slower[::-1]) if one.startswith("drift"))


def test_outliers_are_named_when_they_cost() -> None:
    times = (*STEADY, 0.5)
    (warning,) = warnings(times)
    assert warning.startswith("outliers: 1 of 21 steps took up to 5.0 times the others")
    assert "takes 19% longer" in warning


def test_input_bound_step_is_named() -> None:
    (warning,) = warnings(STEADY, phases=replace(PHASES, data_wait_s=0.05))
    assert warning.startswith("input-bound: 34% of the step waits for the next batch")


def test_throttling_and_company_on_the_card_are_named() -> None:
    busy = replace(QUIET, throttle_reasons=("power cap",), other_process_count=2)
    throttled, shared = warnings_of_ranks([busy], [None], [])
    assert throttled.startswith("throttled: the GPU lowered its clock (power cap)")
    assert shared.startswith("shared: 2 other process(es)")


def test_every_rank_counts_and_is_named() -> None:
    hot = replace(QUIET, throttle_reasons=("power cap",), other_process_count=1)
    throttled, shared = warnings_of_ranks([QUIET, None, QUIET, hot], [None] * 4, [])
    assert throttled.startswith("throttled: the GPU of rank 3 of 4 lowered its clock (power cap)")
    assert shared.startswith("shared: 1 other process(es) ran on the GPU of rank 3 of 4")
    (straggler,) = warnings_of_ranks([None] * 4, [None] * 4, [0.10, 0.101, 0.13, 0.10])
    assert straggler.startswith("straggler: a micro batch takes rank 2 of 4 30% longer than the median rank")
    assert warnings_of_ranks([None] * 2, [None] * 2, [0.100, 0.105]) == ()


def test_company_on_the_cores_is_named() -> None:
    def found(fraction: float | None) -> tuple[str, ...]:
        return warnings_of_ranks([None, None], [None, fraction], [])

    assert found(None) == found(0.05) == ()
    assert found(0.34)[0].startswith("loaded: other processes used 34% of the host's cores")


def test_phases_that_miss_the_whole_are_warned_of() -> None:
    def found(off: float) -> tuple[str, ...]:
        return warnings_of(STEADY, limit_fraction=0.02, phases=PHASES, disagreement_fraction=off)

    assert found(0.05) == ()
    assert found(0.08)[0].startswith("split: the phases of a step are 8% off the whole")
