"""Random search without repetition, and brute force, which is the grid in its order until nothing is left."""

from __future__ import annotations

import random

from benchmarks.search.grid import Bench


def search(bench: Bench) -> None:
    """Every point in an order of its own."""
    order = list(bench.untried())
    random.Random(f"order {bench.seed}").shuffle(order)
    for index in order:
        bench.trial(index)


def brute_force(bench: Bench) -> None:
    """Every point in the grid's order."""
    for index in list(bench.untried()):
        bench.trial(index)
