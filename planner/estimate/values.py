"""An estimate is three numbers and what they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from catalogs.gpus import Gpu, Link


class Basis(StrEnum):
    """What a number rests on, strongest first."""

    MEASURED = "measured"  # this configuration on this GPU type and count
    INTERPOLATED = "interpolated"  # computed between or near measurements on this GPU type
    PREDICTED = "predicted"  # another GPU type or count, or from the trace alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """``low <= expected <= high``: the mean between two quantiles.

    ``expected`` is what the quantity is on average: costs are added up, compared and ranked by it. The truth
    lies between ``low`` and ``high`` with the stated confidence. Errors of predicted times are taken as
    log-normal, so their mean lies above their median, the further the wider the interval
    (`lognormal.mean_of`). Of a measurement, and of a peak of memory, it is the value itself: their intervals
    are narrow.
    """

    low: float
    expected: float
    high: float
    basis: Basis

    def scaled(self, factor: float) -> Estimate:
        """The estimate of ``factor`` (positive) times the quantity."""
        return Estimate(
            low=self.low * factor, expected=self.expected * factor, high=self.high * factor, basis=self.basis
        )

    def inverse(self, numerator: float = 1.0) -> Estimate:
        """The estimate of ``numerator`` divided by the quantity (which must be positive).

        Its ``expected`` is what goes with the expected quantity, so that a speed and its time agree.
        """
        return Estimate(
            low=numerator / self.high,
            expected=numerator / self.expected,
            high=numerator / self.low,
            basis=self.basis,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a configuration would run on: the part of an offer that decides speed.

    ``config.gpu_count`` workers sit on ``config.node_count`` nodes of this kind.
    """

    gpu: Gpu
    link: Link  # between the GPUs of one node
    vcpus: int | None = None  # of one node; None where unknown
    network_bytes_per_s: float | None = None  # between nodes; None where unknown
