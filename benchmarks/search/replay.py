"""What a search costs and what it finds, on recorded grids: the product against five other methods.

    python -m benchmarks.search.replay run --out runs.jsonl [--seeds 20] [--methods ours,tpe] [DATA]
    python -m benchmarks.search.replay table --out runs.jsonl [--plot docs/accuracy-search.svg]

Every grid is searched under the catalog's prices and under random ones, ``--seeds`` times each. A run that
the file holds already is not repeated, and seeds are finished one after the other. A method that stops, or
has made `TRIAL_COUNT` trials, goes on in random order, so that every run says what it cost to come within 5%.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.estimate.recorded import chips
from benchmarks.estimate.scores import default_data
from benchmarks.search import llm_foundry, ours, random_order, sia_t4, table, zeus
from benchmarks.search.grid import CATALOG, RANDOM, Bench, Grid, Prices
from catalogs.gpus import Gpu

TRIAL_COUNT = 20  # of the methods that do not stop by themselves
AT_ONCE = 4  # trials that "ours_4" has under way
METHODS = ("ours", "ours_4", "tpe", "gp_sampler", "cherrypick", "random", "brute_force")


def grids(data: Path) -> Iterator[Grid]:
    """Every grid of every data set."""
    for one in (sia_t4, zeus, llm_foundry):
        yield from one.grids(data)


def method(name: str, gpus: Mapping[str, Gpu]) -> Callable[[Bench], None]:
    """By name. scikit-learn and Optuna's samplers are imported where they are used."""
    if name in ("ours", "ours_4"):
        return lambda bench: ours.search(bench, gpus, at_once=1 if name == "ours" else AT_ONCE)
    if name == "cherrypick":
        from benchmarks.search import cherrypick

        return cherrypick.search
    if name in ("tpe", "gp_sampler"):
        from benchmarks.search import optuna_samplers

        run = optuna_samplers.tpe if name == "tpe" else optuna_samplers.gaussian_process
        return lambda bench: run(bench, TRIAL_COUNT)
    return random_order.search if name == "random" else random_order.brute_force


def replay(grid: Grid, source: str, seed: int, name: str, gpus: Mapping[str, Gpu]) -> dict[str, object]:
    """One run of one method, as a line of the file."""
    bench = Bench(grid=grid, prices=Prices.of(grid, gpus, source, seed), seed=seed)
    method(name, gpus)(bench)
    count = len(bench.tried)
    random_order.search(bench)
    return {
        "data_set": grid.data_set,
        "grid": grid.name,
        "prices": source,
        "seed": seed,
        "method": name,
        "trials": count,
        "has_stopped": bench.stopped_after is not None,
        "regrets": [round(one, 5) for one in bench.regrets()],
        "spent": [round(one, 6) for one in bench.spent_fractions()],
    }


def main() -> None:
    """Run or tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("data", nargs="?", type=Path, default=default_data(), help="the measured sets")
    parser.add_argument("--out", type=Path, default=Path("runs.jsonl"), help="one line for each run")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--plot", type=Path, help="an SVG to write")
    flags = parser.parse_intermixed_args()
    if flags.action == "table":
        table.show(flags.out, flags.plot)
        return
    if not flags.data.is_dir():
        parser.error(f"no data at {flags.data}: give the folder, or set PLANNER_DATA")
    gpus = chips()
    done = table.keys(flags.out)
    every = tuple(grids(flags.data))
    with flags.out.open("a", encoding="utf-8") as out:
        for seed, grid, source, name in itertools.product(
            range(flags.seeds), every, (CATALOG, RANDOM), flags.methods.split(",")
        ):
            if (grid.data_set, grid.name, source, seed, name) not in done:
                out.write(json.dumps(replay(grid, source, seed, name, gpus)) + "\n")
                out.flush()


if __name__ == "__main__":
    main()
