"""The formulas against measurements by others: slices of them, and the whole sets beside the checkout."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.estimate import memory_sailor, scaling_llm_foundry, scaling_sia_t4, scaling_vtrain
from benchmarks.estimate.scores import (
    Row,
    exact_interval,
    leave_one_group_out,
    mape,
    quantile,
    worst_factor,
)
from planner.estimate.scaling.pipeline import fit_layouts
from tests.conftest import SLICES


def contains_the_confidence(rows: list[Row]) -> bool:
    coverage = leave_one_group_out(rows)
    low, high = exact_interval(coverage.hits, coverage.count)
    return low <= 0.9 <= high


def test_t4_nodes_from_three_small_placements(measured_sets: Path) -> None:
    rows = scaling_sia_t4.predictions(measured_sets)

    assert len(rows) == (871 if measured_sets == SLICES else 3159)
    assert mape(rows) < 0.15
    if (
        measured_sets != SLICES
    ):  # the intervals of a model come from the others, which are too few in the slice
        assert contains_the_confidence(rows)


def test_mpt_from_the_smallest_count(measured_sets: Path) -> None:
    rows, constant = scaling_llm_foundry.predictions(measured_sets)

    baseline = 0.045 if measured_sets == SLICES else 0.066
    assert mape(constant) == pytest.approx(baseline, abs=0.001)  # the same rows as the baseline
    assert mape(rows) < 0.05
    assert worst_factor(rows) < 1.5
    assert contains_the_confidence(rows)


def test_megatron_layouts_from_a_tenth(whole_sets: Path) -> None:
    every = scaling_vtrain.points(whole_sets)
    mixed = random.Random(0).sample(every, len(every))
    model = fit_layouts(mixed[:144], scaling_vtrain.machine())

    rows = [scaling_vtrain.row_of(one, model) for one in mixed[144:]]

    assert mape(rows) < 0.08  # the simulator with an operator profile: 0.084


def test_peak_memory_from_the_configuration(whole_sets: Path) -> None:
    found = memory_sailor.predictions(whole_sets)
    rows = [row for _, row in found]

    assert len(rows) == 27
    assert mape(rows) < 0.15
    assert worst_factor(rows) < 2.5


def test_the_exact_interval_is_that_of_clopper_and_pearson() -> None:
    assert exact_interval(9, 10) == pytest.approx((0.5550, 0.9975), abs=1e-4)
    assert exact_interval(0, 10) == pytest.approx((0.0, 0.3085), abs=1e-4)


def test_the_conformal_quantile_leaves_room_for_one_more() -> None:
    assert quantile(range(1, 10), 0.9) == 9
    assert quantile(range(1, 100), 0.9) == 90
