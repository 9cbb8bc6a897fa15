"""An estimate is three numbers and what they rest on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from catalogs.gpus import Gpu, Link

_SIGMAS_AT_90 = 1.645  # half the width of a normal distribution's 90% interval


class Basis(StrEnum):
    """What a number rests on, strongest first."""

    MEASURED = "measured"  # this configuration on this GPU type and count
    INTERPOLATED = "interpolated"  # computed between or near measurements on this GPU type
    PREDICTED = "predicted"  # another GPU type or count, or from the trace alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """``low <= expected <= high``; the truth lies between low and high with the stated confidence."""

    low: float
    expected: float
    high: float
    basis: Basis

    @property
    def mean(self) -> float:
        """Of a log-normal distribution whose 90% interval this is: what the quantity costs on average.

        ``expected`` is the median. Where costs are compared, an unsure estimate of a lower median can still
        cost more on average.
        """
        sigma = math.log(self.high / self.low) / (2.0 * _SIGMAS_AT_90)
        return self.expected * math.exp(0.5 * sigma * sigma)

    def scaled(self, factor: float) -> Estimate:
        """The estimate of ``factor`` (positive) times the quantity."""
        return Estimate(
            low=self.low * factor, expected=self.expected * factor, high=self.high * factor, basis=self.basis
        )

    def inverse(self, numerator: float = 1.0) -> Estimate:
        """The estimate of ``numerator`` divided by the quantity (which must be positive)."""
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
