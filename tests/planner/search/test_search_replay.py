"""The product's search over recorded grids: finds, stops by itself, and does the same again."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.estimate.recorded import chips
from benchmarks.search import ours, random_order, sia_t4, zeus
from benchmarks.search.grid import CATALOG, RANDOM, Bench, Grid, Prices


def bench(grid: Grid, source: str = CATALOG, seed: int = 0) -> Bench:
    return Bench(grid=grid, prices=Prices.of(grid, chips(), source, seed), seed=seed)


def searched(grid: Grid, source: str, seed: int) -> Bench:
    one = bench(grid, source, seed)
    ours.search(one, chips())
    return one


@pytest.mark.parametrize("source", [CATALOG, RANDOM])
def test_four_gpu_types_are_settled_in_eight_trials(measured_sets: Path, source: str) -> None:
    grid = next(one for one in zeus.grids(measured_sets) if "shufflenet" in one.name)
    found = searched(grid, source, 0)
    assert found.stopped_after is not None
    assert found.stopped_after <= 8
    assert found.regrets()[-1] <= 0.02
    assert found.spent_fractions()[-1] <= 0.01


def test_the_same_seed_is_the_same_search_and_another_is_not(measured_sets: Path) -> None:
    grid = next(one for one in sia_t4.grids(measured_sets) if one.name == "bert")
    first, again, other = (searched(grid, RANDOM, seed) for seed in (1, 1, 2))
    assert first.tried == again.tried
    assert first.spent_usd == again.spent_usd
    assert first.tried != other.tried


def test_four_at_once_find_the_same_with_hardly_more_trials(measured_sets: Path) -> None:
    grid = next(one for one in sia_t4.grids(measured_sets) if one.name == "imagenet")
    alone, together = searched(grid, RANDOM, 1), bench(grid, RANDOM, 1)
    ours.search(together, chips(), at_once=4)
    assert together.regrets()[-1] == alone.regrets()[-1]
    assert len(together.tried) < len(alone.tried) + 4


def test_a_repeated_trial_is_answered_from_memory(measured_sets: Path) -> None:
    one = bench(next(iter(zeus.grids(measured_sets))))
    assert one.trial(3) == one.trial(3)
    assert len(one.spent_usd) == 1


def test_brute_force_ends_within_the_noise_of_the_true_best(measured_sets: Path) -> None:
    one = bench(next(iter(zeus.grids(measured_sets))))
    random_order.brute_force(one)
    assert len(one.tried) == len(one.grid.points)
    assert one.regrets()[-1] <= 0.05
