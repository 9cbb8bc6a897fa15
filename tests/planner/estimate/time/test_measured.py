from __future__ import annotations

from typing import Any

import pytest

from planner.estimate.time.line import fit_line
from planner.estimate.time.measured import measured_settings
from tests.builders import make_config, make_cpu, make_environment, make_measurement
from trials.measurement import Measurement, Phases, Series


def at(size: int, accumulation: int, step_time_s: float, **changes: Any) -> Measurement:
    config = make_config(micro_batch_size=size, accumulation=accumulation)
    return make_measurement(config, step_time_s=step_time_s, **changes)


def test_an_exact_line_is_found_and_continued() -> None:
    def true_s(size: int, accumulation: int) -> float:
        return 0.05 + accumulation * (0.02 + 0.01 * size)

    line = fit_line([at(size, count, true_s(size, count)) for size in (2, 4, 8) for count in (1, 4)])

    assert line.step_time_s(6, 2) == pytest.approx(true_s(6, 2), rel=0.01)
    assert line.step_time_s(16, 8) == pytest.approx(true_s(16, 8), rel=0.02)


def test_the_line_runs_through_what_was_measured() -> None:
    bent = {1: 0.100, 4: 0.110, 16: 0.300}

    line = fit_line([at(size, 1, seconds) for size, seconds in bent.items()])

    for size, seconds in bent.items():
        assert line.step_time_s(size, 1) == pytest.approx(seconds, rel=1e-6)
    assert bent[4] < line.step_time_s(8, 1) < bent[16]


def test_two_accumulation_counts_of_one_trial_separate_the_optimizer() -> None:
    series = tuple(Series(accumulation=count, step_times_s=(0.3 + count * 0.1,) * 5) for count in (1, 2))

    line = fit_line([at(8, 16, 1.9, series=series)])

    assert line.step_time_s(8, 16) == pytest.approx(1.9, rel=0.02)
    assert line.fixed_s == pytest.approx(0.3, rel=0.05)


def test_measured_phases_say_what_the_optimizer_takes() -> None:
    phases = Phases(
        data_wait_s=0.0, host_to_device_s=0.0, forward_backward_s=0.6, optimizer_s=0.4, other_s=0.0
    )

    line = fit_line([at(8, 1, 1.0, phases=phases)])

    assert line.optimizer_s == pytest.approx(0.4, rel=0.02)
    assert line.step_time_s(8, 4) == pytest.approx(0.4 + 4 * 0.6, rel=0.05)


def test_the_spread_grows_with_the_distance_and_shrinks_with_sizes() -> None:
    one = fit_line([at(8, 1, 1.0)])
    two = fit_line([at(4, 1, 0.6), at(8, 1, 1.0)])

    assert one.log_spread(8, 1) < one.log_spread(16, 1) < one.log_spread(32, 1)
    assert two.log_spread(16, 1) < one.log_spread(16, 1)


def test_cpus_of_different_size_are_different_settings_and_unknown_chips_are_left_out() -> None:
    cpu = make_cpu("CPU")
    few, many = (
        make_measurement(make_config("CPU"), environment=make_environment(host_cpu_count=count))
        for count in (4, 16)
    )

    found = measured_settings([few, many, make_measurement(make_config("NO-SUCH-GPU"))], {"CPU": cpu})

    assert sorted(str(one.setting.vcpus) for one in found) == ["16", "4"]
