"""What another global batch size does to the samples that a run needs: the gradient noise scale. Pure.

McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training" (arXiv 1812.06162). A gradient
of B samples is the true gradient G plus noise of covariance Sigma / B. With the noise scale N = tr(Sigma) /
|G|^2, in samples, a run at batch size B needs for the same loss (their section 2.2)

    steps = steps_min (1 + N / B)        samples = steps x B = samples_min (1 + B / N)

so that far below N a larger batch costs no samples, and far above it every further sample is lost. The scale
grows while the loss falls, often by more than tenfold over a run: measured early it is less than what comes.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from statistics import NormalDist

from trials.api import GradientNoise

ADAM_POWERS = (0.5, 1.0)
"""Between these powers of SGD's factor lies that of Adam's best learning rate, as they found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScale:
    """In samples, with an interval; None where the draws do not bound it."""

    low: float
    expected: float
    high: float | None  # None: the gradient could not be told from noise
    draw_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesFactor:
    """Samples for the same loss over those of a reference batch size."""

    low: float
    expected: float
    high: float


def noise_scale(noise: GradientNoise, confidence: float = 0.9) -> NoiseScale | None:
    """The noise scale from repeated draws; None where even its expected value is not bounded.

    Each draw gives unbiased estimates of |G|^2 and tr(Sigma) (appendix A.1); the scale is the ratio of their
    means, and its interval Fieller's (1954) for the ratio of two correlated means.
    """
    small, big = noise.small_batch_size, noise.big_batch_size
    signals = [(big * one.big_square - small * one.small_square) / (big - small) for one in noise.draws]
    noises = [(one.small_square - one.big_square) / (1 / small - 1 / big) for one in noise.draws]
    signal, spread = statistics.fmean(signals), statistics.fmean(noises)
    if signal <= 0 or spread <= 0 or len(noise.draws) < 2:  # noqa: PLR2004
        return None
    low, high = _fieller(noises, signals, NormalDist().inv_cdf((1 + confidence) / 2))
    return NoiseScale(low=max(low, 0.0), expected=spread / signal, high=high, draw_count=len(noise.draws))


def samples_factor(scale: float, batch_size: int, reference_batch_size: int) -> float:
    """Samples that ``batch_size`` needs for the same loss, over those of ``reference_batch_size``."""
    return (scale + batch_size) / (scale + reference_batch_size)


def samples_factors(scale: NoiseScale, batch_size: int, reference_batch_size: int) -> SamplesFactor:
    """The same with the interval of the noise scale."""
    # of a scale without an upper end every gradient is noise, and any batch size needs the same samples
    ends = [
        samples_factor(scale.low, batch_size, reference_batch_size),
        1.0 if scale.high is None else samples_factor(scale.high, batch_size, reference_batch_size),
    ]
    expected = samples_factor(scale.expected, batch_size, reference_batch_size)
    return SamplesFactor(low=min(*ends, expected), expected=expected, high=max(*ends, expected))


def learning_rate_factor(scale: float, batch_size: int, reference_batch_size: int) -> float:
    """What the best learning rate of SGD is multiplied with: best(B) = best(infinite) / (1 + N / B)."""
    return (1 + scale / reference_batch_size) / (1 + scale / batch_size)


def _fieller(numerators: list[float], denominators: list[float], sigmas: float) -> tuple[float, float | None]:
    """Interval of the ratio of means; the upper end is None where the denominator may be zero."""
    count = len(numerators)
    top, bottom = statistics.fmean(numerators), statistics.fmean(denominators)
    weight = sigmas**2 / count
    a = bottom**2 - weight * statistics.variance(denominators)
    b = top * bottom - weight * statistics.covariance(numerators, denominators)
    c = top**2 - weight * statistics.variance(numerators)
    root = math.sqrt(max(b * b - a * c, 0.0))
    if a <= 0:  # the set is unbounded: all above the smaller root
        return (c / (b + root) if b + root > 0 else 0.0), None
    return (b - root) / a, (b + root) / a
