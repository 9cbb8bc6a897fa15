"""The largest micro batch that fits, on memories whose boundary is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from planner.estimate.memory.boundary import PROBES_MAX, next_probe, reach

MIB = 1024**2
GIB = 1024**3
FIRST = 8

Law = Callable[[int], int]


@dataclass(frozen=True)
class Found:
    size: int
    probe_count: int
    crash_count: int


def find(law: Law, limit_bytes: int, size_max: int = 10**7, base_bytes: float | None = None) -> Found:
    peaks: dict[int, int] = {}
    overflowing: int | None = None
    size: int | None = FIRST
    probe_count = crash_count = 0
    while size is not None and probe_count < PROBES_MAX:
        probe_count += 1
        if law(size) > limit_bytes:
            crash_count += 1
            overflowing = size
        else:
            peaks[size] = law(size)
        known = reach(peaks.items(), limit_bytes, size_max, overflowing, base_bytes)
        size = next_probe(known, peaks, overflowing)
    return Found(size=known.safe, probe_count=probe_count, crash_count=crash_count)


def truth(law: Law, limit_bytes: int) -> int:
    low, high = FIRST, 10**7
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if law(middle) <= limit_bytes else (low, middle - 1)
    return low


def linear(base: float, slope: float, block: int = 1) -> Law:
    return lambda size: math.ceil((base + slope * size) / block) * block


def test_within_two_percent_in_four_trials_and_no_crash_on_a_thousand_memories() -> None:
    draw = random.Random(7)
    checked = 0
    while checked < 1000:
        limit_bytes = draw.choice([16, 24, 40, 80]) * GIB
        base = math.exp(draw.uniform(math.log(50 * MIB), math.log(0.8 * limit_bytes)))
        slope = math.exp(draw.uniform(math.log(2 * MIB), math.log(GIB)))
        law = linear(base, slope, draw.choice([1, 512, 2 * MIB, 20 * MIB]))
        if law(FIRST) > limit_bytes:
            continue
        checked += 1
        found, true = find(law, limit_bytes), truth(law, limit_bytes)
        case = (base / GIB, slope / MIB, limit_bytes / GIB, true, found)
        assert found.crash_count == 0, case
        assert found.probe_count <= PROBES_MAX, case
        assert 0 <= true - found.size <= max(1, 0.02 * true), case


@pytest.mark.parametrize("workspace_bytes", [0, 40 * MIB])
def test_a_workspace_that_appears_at_large_sizes_costs_no_crash(workspace_bytes: int) -> None:
    limit_bytes = 24 * GIB

    def law(size: int) -> int:
        return linear(2 * GIB, 60 * MIB, 20 * MIB)(size) + (workspace_bytes if size > 128 else 0)

    found, true = find(law, limit_bytes), truth(law, limit_bytes)
    assert found.crash_count == 0
    assert true * 0.98 <= found.size <= true


def test_memory_that_bends_upwards_is_found_between_the_crash_and_what_fitted() -> None:
    def law(size: int) -> int:
        return int(2 * GIB + 50 * MIB * size * (1.0 if size < 200 else 1.3))

    found = find(law, 24 * GIB)
    assert found.crash_count == 1
    assert law(found.size) <= 24 * GIB


def test_no_probe_lies_beyond_the_sizes_of_interest() -> None:
    found = find(linear(GIB, MIB), 80 * GIB, size_max=64)
    assert (found.size, found.crash_count) == (64, 0)


def passes(state: float, gradients: float, slope: float, at_the_end: float) -> Law:
    """Forward and backward are fullest as the backward pass begins, or of gradients at its end."""
    return lambda size: math.ceil(max(state + slope * size, state + gradients + at_the_end * slope * size))


def test_no_crash_where_small_batches_peak_at_another_moment_and_the_base_is_known() -> None:
    draw = random.Random(11)
    unforeseen = near = checked = 0
    while checked < 500:
        limit_bytes = draw.choice([16, 24, 40, 80]) * GIB
        parameters = math.exp(draw.uniform(math.log(20 * MIB), math.log(limit_bytes / 8)))
        state = draw.choice([1, 2, 3]) * parameters  # plain SGD, momentum, Adam
        slope = math.exp(draw.uniform(math.log(10 * MIB), math.log(GIB)))
        law = passes(state, parameters, slope, draw.uniform(0.05, 0.3))
        if law(FIRST) > limit_bytes:
            continue
        checked += 1
        found, true = find(law, limit_bytes, base_bytes=state), truth(law, limit_bytes)
        assert found.crash_count == 0
        assert found.size <= true
        near += true - found.size <= max(1, 0.02 * true)
        unforeseen += find(law, limit_bytes).crash_count > 0
    assert near >= 0.98 * checked
    assert unforeseen > 0.1 * checked  # what the base is measured for


def test_the_second_probe_lies_at_the_boundary_of_passes_that_begin_at_their_base() -> None:
    found = find(linear(12 * GIB, GIB / 4), 40 * GIB, base_bytes=12 * GIB)
    assert 0.99 * 112 <= found.size <= 112
    assert found.probe_count == 2
