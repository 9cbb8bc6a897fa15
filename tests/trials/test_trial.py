from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import make_config, make_environment, make_failure, make_measurement, make_telemetry
from trials.measurement import Series
from trials.trial import FailureKind

seconds = st.floats(1e-4, 1e3)


def interpolated(few_s: float, many_s: float, accumulation: int = 16):
    config = make_config(micro_batch_size=2, accumulation=accumulation)
    series = (
        Series(accumulation=1, step_times_s=(few_s,) * 10),
        Series(accumulation=3, step_times_s=(many_s,) * 10),
    )
    return make_measurement(config, series=series)


def test_a_step_is_the_mean_of_the_raw_times() -> None:
    series = (Series(accumulation=4, step_times_s=(0.5, 0.9, 0.4)),)
    assert make_measurement(series=series).step_time_s == pytest.approx(0.6)
    assert make_measurement(series=series).throughput_per_s == pytest.approx(32 / 0.6)


TELEMETRY = make_telemetry()
ON_CPU = make_environment(threads_per_worker=2)


@pytest.mark.parametrize(
    ("changes", "disturbance"),
    [
        ({"telemetry": TELEMETRY}, ""),
        ({"is_steady": False}, "unsteady"),
        ({"telemetry": replace(TELEMETRY, throttle_reasons=("power cap",))}, "throttled"),
        ({"telemetry": replace(TELEMETRY, other_process_count=1)}, "disturbed by other processes"),
        ({"foreign_cpu_fraction": 0.3, "environment": ON_CPU}, "disturbed by other processes"),
        ({"foreign_cpu_fraction": 0.3}, ""),  # other cores of a host matter little to a GPU
        ({"foreign_cpu_fraction": 0.05, "environment": ON_CPU}, ""),
    ],
)
def test_what_makes_times_doubtful_is_named(changes: dict[str, Any], disturbance: str) -> None:
    assert make_measurement(**changes).disturbance == disturbance


def test_a_large_accumulation_is_the_line_through_two_small_ones() -> None:
    one = interpolated(few_s=0.2 + 0.1, many_s=0.2 + 0.3)
    assert one.is_interpolated
    assert one.step_time_s == pytest.approx(0.2 + 1.6)


@given(few_s=seconds, many_s=seconds, accumulation=st.integers(5, 512))
def test_noise_never_makes_a_step_shorter_than_its_parts(
    few_s: float, many_s: float, accumulation: int
) -> None:
    step_s = interpolated(few_s, many_s, accumulation).step_time_s
    assert many_s <= step_s <= many_s * accumulation / 3 * (1 + 1e-9)


def test_the_peak_is_the_fullest_ranks_and_reserved_where_the_allocator_reserves() -> None:
    assert make_measurement(peak_reserved_bytes=None, peak_allocated_bytes=(3, 5)).peak_memory_bytes == 5
    assert make_measurement(peak_reserved_bytes=(7, 6), peak_allocated_bytes=(3, 5)).peak_memory_bytes == 7


def test_an_illegal_access_loses_the_device_and_running_out_of_memory_does_not() -> None:
    lost = "AcceleratorError: CUDA error: an illegal memory access was encountered"
    for reason in (lost, f"model.py, line 3: {lost}"):
        assert make_failure(make_config(), kind=FailureKind.USER_CODE, reason=reason).is_device_lost
    full = "CUDA error: out of memory"
    assert not make_failure(make_config(), kind=FailureKind.OUT_OF_MEMORY, reason=full).is_device_lost
