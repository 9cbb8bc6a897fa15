"""A positive quantity whose logarithm is normal: what an interval says of it, and what it may save.

With mean M, log-spread s, median m = M exp(-s^2/2) and F the normal distribution function:

    E[max(W - X, 0)] = W F(b) - M F(b - s),   b = ln(W/m)/s

the expected improvement of Mockus (1978) for the lognormal.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

from planner.estimate.values import Estimate

NORMAL = NormalDist()


@cache
def sigmas(confidence: float) -> float:
    """Standard deviations from the middle to each end of an interval that holds with ``confidence``."""
    return NORMAL.inv_cdf((1.0 + confidence) / 2.0)


def log_spread(estimate: Estimate, confidence: float) -> float:
    """Standard deviation of the logarithm, from an interval that holds with ``confidence``."""
    if estimate.low <= 0 or estimate.high <= estimate.low:
        return 0.0
    return math.log(estimate.high / estimate.low) / (2 * sigmas(confidence))


def mean_of(median: float, below: float, above: float) -> float:
    """Of a quantity whose log-spreads below and above its median may differ: m exp(s^2/2) where they do not.

    Half of the outcomes lie on each side, as in a log-normal: m (exp(b^2/2) F(-b) + exp(a^2/2) F(a)).
    """
    lesser, greater = (
        math.exp(one**2 / 2) * NORMAL.cdf(side) for one, side in ((below, -below), (above, above))
    )
    return median * (lesser + greater)


def median_of(mean: float, spread: float) -> float:
    """What the quantity is as likely to exceed as not."""
    return mean * math.exp(-(spread**2) / 2)


def spreads_to(estimate: Estimate, limit: float, confidence: float) -> float:
    """How many log-spreads above its median the quantity reaches ``limit``; infinite without a spread."""
    spread = log_spread(estimate, confidence)
    if spread <= 0:
        return math.inf if estimate.expected <= limit else -math.inf
    return math.log(limit / median_of(estimate.expected, spread)) / spread


def expected_below(mean: float, spread: float, bar: float, limit: float = math.inf) -> float:
    """How far below ``bar`` the quantity is expected to lie, in its unit; where above, it counts as zero.

    Args:
        mean: of the quantity.
        spread: of its logarithm, more than zero.
        bar: in the same unit.
        limit: so many spreads above the median and further the quantity counts as zero too.
    """
    bound = min(math.log(bar / median_of(mean, spread)) / spread, limit)
    return max(0.0, bar * NORMAL.cdf(bound) - mean * NORMAL.cdf(bound - spread))
