"""How the tables of this folder are scored: errors, conformal intervals and the coverage they reach."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from planner.estimate import Estimate
from planner.estimate.interval.lognormal import mean_of, sigmas

CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prediction of something measured."""

    group: str  # the workload: left out as a whole when the others set its interval
    measured: float
    predicted: float
    below: float = 1.0  # expected size of the log error when the measured value is smaller, up to a factor
    above: float = 1.0  # and when it is larger
    expected: float | None = None  # the mean, which the product shows; None for a baseline

    @property
    def error_fraction(self) -> float:
        """Signed, of the measured value."""
        return self.predicted / self.measured - 1.0

    @property
    def log_error(self) -> float:
        """log(measured / predicted)."""
        return math.log(self.measured / self.predicted)

    @property
    def score(self) -> float:
        """The log error in units of what was expected on its side."""
        return abs(self.log_error) / (self.above if self.log_error > 0 else self.below)

    @property
    def scale(self) -> float:
        """Mean of both sides: the half width of an interval per unit of score."""
        return 0.5 * (self.below + self.above)


def row_of(group: str, measured_s: float, estimate: Estimate) -> Row:
    """Of an estimate at `CONFIDENCE`, by its median: as likely too long as too short."""
    predicted_s = median_of(estimate)
    return Row(
        group=group,
        measured=measured_s,
        predicted=predicted_s,
        below=math.log(predicted_s / estimate.low),
        above=math.log(estimate.high / predicted_s),
        expected=estimate.expected,
    )


def median_of(estimate: Estimate) -> float:
    """From mean and interval: the value whose log-normal sides have that mean."""
    low, sides = estimate.low, math.log(estimate.high / estimate.low)

    def excess(share: float) -> float:
        below, above = (one * sides / sigmas(CONFIDENCE) for one in (share, 1.0 - share))
        return mean_of(low * math.exp(share * sides), below, above) - estimate.expected

    return low * math.exp(sides * _bisect(excess))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Of intervals whose width the other groups decided."""

    hits: int
    count: int
    median_half_width: float  # log units

    def line(self) -> str:
        """For a table, with the exact 95% confidence interval (Clopper, Pearson 1934)."""
        low, high = exact_interval(self.hits, self.count)
        holds = "contains" if low <= CONFIDENCE <= high else "misses"
        return (
            f"coverage {self.hits}/{self.count} = {self.hits / self.count:.1%}"
            f" (95%: {low:.1%} to {high:.1%}, {holds} {CONFIDENCE:.0%});"
            f" median half width x/{math.exp(self.median_half_width):.2f}"
        )


def default_data() -> Path:
    """PLANNER_DATA, or ../shared/data beside the checkout; may not exist."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("PLANNER_DATA", beside))


def data_directory(description: str | None) -> Path:
    """From the command line, PLANNER_DATA, or ../shared/data beside the checkout."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("data", nargs="?", type=Path, default=default_data(), help="the measured sets")
    path: Path = parser.parse_args().data
    if not path.is_dir():
        parser.error(f"no data at {path}: give the folder, or set PLANNER_DATA")
    return path


def mape(rows: Sequence[Row]) -> float:
    """Mean absolute error as a fraction of the measured value."""
    return sum(abs(row.error_fraction) for row in rows) / len(rows)


def mape_expected(rows: Sequence[Row]) -> float:
    """The same of the mean, which lies above the median, the more the wider the interval."""
    return sum(abs((row.expected or row.predicted) / row.measured - 1.0) for row in rows) / len(rows)


def worst_factor(rows: Sequence[Row]) -> float:
    """The largest factor, either way, between prediction and measurement."""
    return math.exp(max(abs(row.log_error) for row in rows))


def summary(rows: Sequence[Row]) -> str:
    """Number, error (and that of the means, where there are any) and worst factor of rows, for a table."""
    has_means = any(row.expected is not None for row in rows)
    means = f" (as means {mape_expected(rows):.1%})" if has_means else ""
    return f"{len(rows)} rows: {mape(rows):.1%}{means}, worst {worst_factor(rows):.2f}x"


def quantile(scores: Sequence[float], level: float) -> float:
    """The conformal quantile: the ceil((n+1) level)-th smallest; the largest where n is too small."""
    ordered = sorted(scores)
    return ordered[min(len(ordered), math.ceil((len(ordered) + 1) * level)) - 1]


def leave_one_group_out(rows: Sequence[Row]) -> Coverage:
    """Coverage of two-sided intervals whose quantile comes from the other groups only."""
    hits, widths = 0, []
    for name in {row.group for row in rows}:
        limit = quantile([row.score for row in rows if row.group != name], CONFIDENCE)
        mine = [row for row in rows if row.group == name]
        hits += sum(row.score <= limit for row in mine)
        widths += [limit * row.scale for row in mine]
    return Coverage(hits=hits, count=len(rows), median_half_width=sorted(widths)[len(widths) // 2])


def weighted_quantile(values: NDArray[np.float64], weights: NDArray[np.float64], probability: float) -> float:
    """The smallest value at which the weights below it reach ``probability`` of their sum."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    index = int(np.searchsorted(reached, probability * reached[-1]))
    return float(values[order][min(index, len(values) - 1)])


def exact_interval(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share."""
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else float(betaincinv(hits, count - hits + 1, tail))
    high = 1.0 if hits == count else float(betaincinv(hits + 1, count - hits, 1.0 - tail))
    return low, high


def _bisect(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return 0.5 * (low + high)
