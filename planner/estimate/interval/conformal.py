"""How wide an estimate must be: conformal prediction over errors on hardware that was left out.

Every prediction comes with a spread, its own idea of how unsure it is (from the grid of
`workload_decomposition`, the distance between chips, the share of the host). On data where the truth is
known, the score of a prediction is |log(truth / prediction)| / spread; the quantile of the scores is what the
spread must be multiplied with for the interval to hold as often as it says (Vovk et al. 2005; Lei et al.
2018, normalised scores). Which predictions were scored: each left a GPU and its workload out.

``spreads.json`` is written by benchmarks/estimate/fit_spreads.py: quantiles of the scores by what a
prediction rests on, every data set weighing the same.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from planner.estimate.interval.lognormal import sigmas

Vector = NDArray[np.float64]


class Ground(StrEnum):
    """What a prediction rests on, as far as its errors differ."""

    CHIPS = "another chip, from the chips' figures"
    TRACED = "another chip, with a trace"
    TRACE_ALONE = "a trace alone"
    LINE = "another batch on a measured chip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreads:
    """Quantiles of the scores of each ground at ``probabilities``."""

    probabilities: tuple[float, ...]  # ascending
    scores: dict[Ground, tuple[float, ...]]

    def multiplier(self, ground: Ground, confidence: float) -> float:
        """What a spread is multiplied with for an interval of ``confidence``."""
        return float(np.interp(confidence, self.probabilities, self.scores[ground]))


@cache
def spreads() -> Spreads:
    """The shipped table."""
    text = resources.files("planner.estimate.interval").joinpath("spreads.json").read_text(encoding="utf-8")
    values = json.loads(text)
    return Spreads(
        probabilities=tuple(values["probabilities"]),
        scores={ground: tuple(values["scores"][ground.value]) for ground in Ground},
    )


@cache
def multiplier(ground: Ground, confidence: float) -> float:
    """That of the shipped table, remembered."""
    return spreads().multiplier(ground, confidence)


def half_width(ground: Ground, log_spread: float, log_noise: float, confidence: float) -> float:
    """Of an interval, in log: the model's spread as the errors of its ground say, and the source's noise.

    The noise of the measurement that a prediction starts from is no error of the model: it is normal, and the
    same whichever way is taken.
    """
    return math.hypot(multiplier(ground, confidence) * log_spread, sigmas(confidence) * log_noise)
