"""CherryPick (Alipourfard et al., NSDI 2017): a Gaussian process that stops at 10% expected improvement.

Matern 5/2 over the grid's dimensions scaled to [0, 1] (numbers by their logarithm, GPU types one-hot), three
random points first, then the largest expected improvement; it ends when that is under 10% of the best cost
and six points were tried, as the paper has it. The process models the cost divided by the best.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel

from benchmarks.search.grid import Bench, axis

FIRST_COUNT = 3
TRIAL_COUNT_MIN = 6
STOP_FRACTION = 0.10


def search(bench: Bench) -> None:
    """Until it stops."""
    features = _features(bench)
    for index in random.Random(f"first {bench.seed}").sample(
        range(len(features)), min(FIRST_COUNT, len(features))
    ):
        bench.trial(index)
    while left := list(bench.untried()):
        known = list(bench.tried)
        best = min(bench.tried.values())
        costs = np.array([bench.tried[one] for one in known]) / best
        process = GaussianProcessRegressor(
            Matern(length_scale=0.5, length_scale_bounds=(0.05, 10.0), nu=2.5) + WhiteKernel(1e-3),
            normalize_y=True,
            random_state=bench.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of hyperparameters at their bounds
            process.fit(features[known], costs)
        mean, deviation = process.predict(features[left], return_std=True)
        deviation = np.maximum(deviation, 1e-9)
        z = (1.0 - mean) / deviation
        improvement = (1.0 - mean) * norm.cdf(z) + deviation * norm.pdf(z)
        if len(known) >= TRIAL_COUNT_MIN and improvement.max() < STOP_FRACTION:
            bench.stop()
            return
        bench.trial(left[int(improvement.argmax())])
    bench.stop()


def _features(bench: Bench) -> np.ndarray:
    columns = []
    for which in range(len(bench.grid.dimensions)):
        values = [one.values[which] for one in bench.grid.points]
        if isinstance(values[0], str):
            columns += [[float(value == one) for value in values] for one in axis(values)]
        else:
            logs = np.log(np.array(values, dtype=float))
            columns.append(list((logs - logs.min()) / max(logs.max() - logs.min(), 1e-9)))
    return np.array(columns).T
