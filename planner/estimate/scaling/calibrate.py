"""Positive constants with a prior, moved by what was measured (maximum a posteriori).

A formula of this package has a handful of physical constants: an efficiency, a latency, an overlap. Before
any measurement each is believed to lie around a cited figure, within a stated factor. Measurements then move
the constants that they speak about and leave the others where they were: one point cannot send a model
astray, and many points outvote every prior.

The fit minimises  sum((log(predicted/measured) / noise)^2) + sum((log(x/median) / log(factor))^2)  by
Levenberg-Marquardt in log x (Marquardt 1963), with the squared misfit of outliers growing only linearly
(Huber 1964): a stalled run must not bend the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_STEP = 1e-5  # of the numerical derivative, in log units
_REACH_SIGMAS = 1.645  # a 90% interval of a normal distribution
_HUBER_SIGMAS = 2.0  # misfits beyond this many noises count linearly
_DAMPING_MAX = 1e9  # at which a step no longer moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """A positive constant before measuring: its median, and the factor that two thirds of cases are within.

    ``factor == 1`` fixes the constant; ``low`` and ``high`` are physical bounds (an efficiency is below 1).
    """

    median: float
    factor: float
    low: float = 0.0
    high: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Constants after measuring, and how uncertain they still are.

    ``covariance`` is that of the logs of ``free`` (the curvature at the optimum); a constant that no
    measurement spoke about keeps the width of its prior.
    """

    constants: Mapping[str, float]
    free: tuple[str, ...]
    covariance: Vector
    _reaches: list[Mapping[str, float]] = field(default_factory=list, repr=False, compare=False)

    def reaches(self) -> tuple[Mapping[str, float], ...]:
        """The constants, then 1.645 sigmas either way along each principal axis of the covariance."""
        if not self.free:
            return (self.constants,)
        if not self._reaches:
            variances, axes = np.linalg.eigh(self.covariance)
            sigmas = np.sqrt(np.maximum(variances, 0.0))
            moves = [
                self._moved(sign * _REACH_SIGMAS * sigma * axis)
                for sigma, axis in zip(sigmas, axes.T, strict=True)
                for sign in (-1.0, 1.0)
            ]
            self._reaches.extend([self.constants, *moves])
        return tuple(self._reaches)

    def log_scale(self, predict: Callable[[Mapping[str, float]], float]) -> tuple[float, float]:
        """How far below and above log(prediction) the uncertainty of the constants reaches, per sigma."""
        return log_scale_of([predict(one) for one in self.reaches()])

    def _moved(self, logs: Vector) -> dict[str, float]:
        moved = {name: self.constants[name] * math.exp(x) for name, x in zip(self.free, logs, strict=True)}
        return {**self.constants, **moved}


def log_scale_of(predictions: Sequence[float]) -> tuple[float, float]:
    """`Fit.log_scale` from the predictions at `Fit.reaches`.

    Both ways along each axis count: a prediction can be flat on one side (traffic that hides) and steep on
    the other.
    """
    gaps = [math.log(one / predictions[0]) for one in predictions[1:]]
    below = above = 0.0
    for either in zip(gaps[::2], gaps[1::2], strict=True):
        below += min(0.0, *either) ** 2
        above += max(0.0, *either) ** 2
    return math.sqrt(below) / _REACH_SIGMAS, math.sqrt(above) / _REACH_SIGMAS


def unmeasured(priors: Mapping[str, Prior]) -> Fit:
    """The priors themselves."""
    free = tuple(name for name, one in priors.items() if one.factor > 1.0)
    return Fit(
        constants={name: one.median for name, one in priors.items()},
        free=free,
        covariance=np.diag([math.log(priors[name].factor) ** 2 for name in free]),
    )


def fit_constants(
    priors: Mapping[str, Prior],
    predict_s: Callable[[Mapping[str, float]], Vector],
    measured_s: Vector,
    *,
    noise_fraction: float | Vector,
    iterations: int = 60,
) -> Fit:
    """The constants that explain ``measured_s`` best without leaving their priors for little.

    Args:
        priors: the constants that ``predict_s`` takes.
        predict_s: predictions of all measured points from the constants; positive.
        measured_s: what was measured, in the unit of ``predict_s``; positive, may be empty.
        noise_fraction: relative error that the formula is not expected to beat; of all points or of each.
        iterations: cap on the number of steps.
    """
    start = unmeasured(priors)
    free = start.free
    if not free or measured_s.size == 0:
        return start
    center = np.array([math.log(priors[name].median) for name in free])
    width = np.array([math.log(priors[name].factor) for name in free])
    low = np.array([math.log(max(priors[name].low, 1e-300)) for name in free])
    high = np.array([math.log(min(priors[name].high, 1e300)) for name in free])
    log_measured = np.log(measured_s)

    def constants_at(x: Vector) -> dict[str, float]:
        return {**start.constants, **dict(zip(free, np.exp(x).tolist(), strict=True))}

    def misfits(x: Vector) -> Vector:
        residual = (np.log(predict_s(constants_at(x))) - log_measured) / noise_fraction
        return np.concatenate([_huber(residual), (x - center) / width])

    solution = _minimise(misfits, center, low, high, iterations)
    slopes = _slopes(misfits, solution)
    covariance = np.asarray(np.linalg.inv(slopes.T @ slopes), dtype=np.float64)
    return Fit(constants=constants_at(solution), free=free, covariance=covariance)


def _huber(residual: Vector) -> Vector:
    """Residuals whose squares are Huber's loss."""
    size = np.abs(residual)
    linear = np.sqrt(np.maximum(2.0 * _HUBER_SIGMAS * size - _HUBER_SIGMAS**2, 0.0))
    huber: Vector = np.where(size <= _HUBER_SIGMAS, residual, np.sign(residual) * linear)
    return huber


def _minimise(
    misfits: Callable[[Vector], Vector], start: Vector, low: Vector, high: Vector, iterations: int
) -> Vector:
    x = np.clip(start, low, high)
    current = misfits(x)
    damping = 1e-2
    for _ in range(iterations):
        slopes = np.stack([(misfits(x + _STEP * unit) - current) / _STEP for unit in np.eye(x.size)], axis=1)
        hessian, gradient = slopes.T @ slopes, slopes.T @ current
        gain = 0.0
        while damping < _DAMPING_MAX:
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian) + 1e-9), -gradient)
            moved = np.clip(x + np.clip(step, -1.0, 1.0), low, high)
            found = misfits(moved)
            gain = float(current @ current - found @ found)
            if gain > 0:
                x, current, damping = moved, found, max(damping / 5.0, 1e-9)
                break
            damping *= 5.0
        if gain <= 1e-8 * float(current @ current):
            break
    return x


def _slopes(misfits: Callable[[Vector], Vector], x: Vector) -> Vector:
    at = misfits(x)
    return np.stack([(misfits(x + _STEP * unit) - at) / _STEP for unit in np.eye(x.size)], axis=1)
