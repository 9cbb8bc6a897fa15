"""Which trial next, and whether it pays: expected saving on the target run against the price of the trial.

The analytic model of the estimator, refitted after every trial, gives each candidate's cost of the target run
as a lognormal between its low and its high. Its expected improvement over the best measured configuration
(Mockus 1978; for the lognormal the integral has a closed form) is in dollars, and so is what the trial itself
costs; the difference is what measuring it is worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from planner.estimate import Basis, Estimate
from trials.trial import Parallelism, Precision, TrialConfig

FIRST_MICRO_BATCH_SIZE = 8  # small enough to fit, large enough not to time the launch of kernels alone
SECOND_MICRO_BATCH_FACTOR = 4  # far enough from the first for a slope, near enough to fit
GAIN_FLOOR_FRACTION = 0.005  # below half a percent of the run, a saving is within the noise of measuring it

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configuration that could be tried now, with what is believed of it."""

    config: TrialConfig
    run_cost: Estimate | None  # of the target run: dollars, or device hours where nothing has a price
    trial_cost_usd: float | None  # None where the device has no price
    memory: Estimate | None  # peak of a worker, in bytes
    memory_bytes: int  # that the device has


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The next trial and what it is expected to be worth."""

    config: TrialConfig
    expected_saving: float | None  # None for the first trial of a GPU type
    trial_cost_usd: float | None
    reason: str


def fit_probability(candidate: Candidate, confidence: float) -> float:
    """Chance that the configuration fits into the device's memory; 1 where nothing is known."""
    if candidate.memory is None:
        return 1.0
    spread = _log_spread(candidate.memory, confidence)
    distance = math.log(candidate.memory_bytes / candidate.memory.expected)
    return _NORMAL.cdf(distance / spread) if spread > 0 else float(distance >= 0)


def expected_improvement(best: float, run_cost: Estimate, confidence: float) -> float:
    """E[max(best - cost, 0)] for a lognormal cost with median ``expected``, in the unit of ``best``."""
    spread = _log_spread(run_cost, confidence)
    distance = math.log(best / run_cost.expected)
    if spread <= 0:
        return max(best - run_cost.expected, 0.0)
    z = distance / spread
    mean_below = run_cost.expected * math.exp(spread**2 / 2) * _NORMAL.cdf(z - spread)
    return max(best * _NORMAL.cdf(z) - mean_below, 0.0)


def choose(
    candidates: Sequence[Candidate], best: float | None, confidence: float, tried: Sequence[TrialConfig]
) -> Choice | None:
    """The candidate with the largest expected net saving; None when none pays for itself.

    Args:
        candidates: what could be tried now.
        best: cost of the target run with the best measured configuration; None when nothing was measured.
        confidence: of the candidates' intervals.
        tried: every configuration that had a trial, in order.
    """
    opening = _opening(candidates, tried)
    if opening is not None:
        return opening
    if best is None:
        return _smallest(candidates)
    scored = [
        (expected_improvement(best, one.run_cost, confidence) * fit_probability(one, confidence), one)
        for one in candidates
        if one.run_cost is not None
    ]
    worth = [
        (saving - (one.trial_cost_usd or 0.0), saving, one)
        for saving, one in scored
        if saving > max(one.trial_cost_usd or 0.0, GAIN_FLOOR_FRACTION * best)
    ]
    if not worth:
        return None
    _, saving, one = max(worth, key=lambda row: row[0])
    return _choice(one, "largest expected saving on the target run", saving)


def _opening(candidates: Sequence[Candidate], tried: Sequence[TrialConfig]) -> Choice | None:
    """The first two trials of each GPU type: the plainest configuration at two micro batch sizes.

    Time and memory are lines in the micro batch size, and two points are a line: all that is predicted on
    that type, the largest batch that fits among it, starts from them.
    """
    for gpu in dict.fromkeys(one.config.gpu for one in candidates):
        mine = [one for one in candidates if one.config.gpu == gpu]
        before = [config for config in tried if config.gpu == gpu]
        if not before:
            one = min(mine, key=lambda one: _plainness(one.config))
            return _choice(one, f"first trial on {gpu}: the plainest configuration")
        if len(before) == 1:
            same = [one for one in mine if _technique(one.config) == _technique(before[0])]
            if same:
                size = before[0].micro_batch_size * SECOND_MICRO_BATCH_FACTOR
                one = min(same, key=lambda one: abs(math.log(one.config.micro_batch_size / size)))
                return _choice(one, f"second trial on {gpu}: the same at another micro batch size")
    return None


def _plainness(config: TrialConfig) -> tuple[int, bool, bool, bool, float]:
    """One worker, fp32, nothing switched on, a small micro batch."""
    distance = abs(math.log(config.micro_batch_size / FIRST_MICRO_BATCH_SIZE))
    is_reduced = config.precision is not Precision.FP32
    return config.gpu_count, config.is_compiled, config.is_checkpointed, is_reduced, distance


def _technique(config: TrialConfig) -> TrialConfig:
    return replace(config, micro_batch_size=1, accumulation=1)


def _choice(one: Candidate, reason: str, saving: float | None = None) -> Choice:
    return Choice(config=one.config, expected_saving=saving, trial_cost_usd=one.trial_cost_usd, reason=reason)


def _smallest(candidates: Sequence[Candidate]) -> Choice | None:
    """Nothing has succeeded yet: try what needs the least memory."""
    if not candidates:
        return None

    def need(one: Candidate) -> tuple[float, int, bool, bool]:
        config = one.config
        memory = one.memory.expected if one.memory is not None else float(config.micro_batch_size)
        return memory, config.gpu_count, config.parallelism is not Parallelism.SINGLE, config.is_compiled

    return _choice(min(candidates, key=need), "nothing has run yet: what needs the least")


def _log_spread(estimate: Estimate, confidence: float) -> float:
    """Standard deviation of the logarithm, from an interval that holds with ``confidence``."""
    z = _NORMAL.inv_cdf((1 + confidence) / 2)
    spread = math.log(estimate.high / estimate.low) / (2 * z)
    return max(spread, 0.02) if estimate.basis is not Basis.MEASURED else spread
