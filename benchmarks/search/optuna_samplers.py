"""Optuna's TPE and its Gaussian process with constraints, by ask and tell.

Ordered dimensions are given as the index of the value, the GPU type as a category. A point that the grid
lacks breaks a constraint, and one that was tried is answered from memory: neither is charged or counted.
"""

from __future__ import annotations

import warnings

import optuna

from benchmarks.search.grid import Bench, axis

ASKS_PER_TRIAL = 4  # a sampler that repeats itself is given up on after this many asks for each trial


def tpe(bench: Bench, trial_count: int) -> None:
    """With its defaults; multivariate would need joint draws that its defaults do not make."""
    _search(bench, trial_count, optuna.samplers.TPESampler(seed=bench.seed))


def gaussian_process(bench: Bench, trial_count: int) -> None:
    """`GPSampler`, which models the constraint beside the cost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.GPSampler(seed=bench.seed, deterministic_objective=True)
        _search(bench, trial_count, sampler)


def _search(bench: Bench, trial_count: int, sampler: optuna.samplers.BaseSampler) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=sampler)
    axes = [
        axis([one.values[which] for one in bench.grid.points]) for which in range(len(bench.grid.dimensions))
    ]
    where = {one.values: index for index, one in enumerate(bench.grid.points)}
    trial_count = min(trial_count, len(where))
    for _ in range(ASKS_PER_TRIAL * trial_count):
        if len(bench.tried) >= trial_count:
            return
        asked = study.ask()
        values = []
        for name, choices in zip(bench.grid.dimensions, axes, strict=True):
            if isinstance(choices[0], str):
                values.append(asked.suggest_categorical(name, choices))
            else:
                values.append(choices[asked.suggest_int(name, 0, len(choices) - 1)])
        index = where.get(tuple(values))
        asked.set_constraint("recorded", -1.0 if index is not None else 1.0)
        worst = max(bench.tried.values(), default=1.0)
        study.tell(asked, bench.trial(index) if index is not None else worst)
