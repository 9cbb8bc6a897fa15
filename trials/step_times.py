"""What the raw times of a trial say: how long a step takes, and how well that is known. Pure.

A run pays for the sum of its steps, so a step takes their mean: a median forgets the batch that is longer
than the others and the loader that stalls at every fourth. What is rare and far off is foreign and left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# A step is an outlier from this many robust standard deviations on: the modified z-score of Iglewicz and
# Hoaglin (1993), "How to Detect and Handle Outliers", with the threshold that hyperfine uses.
OUTLIER_SIGMAS = 10.0
MAD_TO_SIGMA = 1.4826  # median absolute deviation to standard deviation of a normal distribution
RARE_FRACTION = 0.1  # of all steps: outliers that are more are the run's own


def step_s(times_s: Sequence[float]) -> float:
    """Seconds of a step: the mean, without rare outliers."""
    return statistics.fmean(_usual(times_s))


def half_width_fraction(times_s: Sequence[float]) -> float:
    """Half the width of that mean's 95% interval (Student's), as a share of it; 0 for a single step.

    Steps are taken as independent; drift is warned of apart.
    """
    usual = _usual(times_s)
    return half_width(usual) / statistics.fmean(usual)


def half_width(values: Sequence[float]) -> float:
    """Half the width of the 95% interval of a mean (Student's); 0 for a single value."""
    freedom = len(values) - 1
    if freedom < 1:
        return 0.0
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))


def outliers(times_s: Sequence[float]) -> tuple[int, ...]:
    """Indices of the steps that are far from the rest."""
    median = statistics.median(times_s)
    deviation = statistics.median(abs(one - median) for one in times_s)
    if deviation == 0:
        return ()
    limit = OUTLIER_SIGMAS * MAD_TO_SIGMA * deviation
    return tuple(index for index, one in enumerate(times_s) if abs(one - median) > limit)


def _usual(times_s: Sequence[float]) -> Sequence[float]:
    far = outliers(times_s)
    if not far or len(far) > RARE_FRACTION * len(times_s):
        return times_s
    return [one for index, one in enumerate(times_s) if index not in far]
