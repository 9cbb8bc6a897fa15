"""Which global batch size: what each of a range costs for the same loss. Pure.

The samples that the user gave belong to the reference batch size; another one needs more or fewer of them
for the same loss, as the gradient noise scale says (`planner.estimate.noise_scale`). Each size is priced as
a run of its own, with its samples and the interval of their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.estimate.noise_scale import (
    NoiseScale,
    SamplesFactor,
    learning_rate_factor,
    noise_scale,
    samples_factors,
)
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.plans.ties import NEGLIGIBLE_FRACTION
from planner.target import BatchRange, Target
from trials.api import GradientNoise, Measurement

UNMEASURED = "gradient noise not measured"  # how a trial's warning of it begins


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOption:
    """One global batch size, and what the run then needs."""

    target: Target  # with the samples that it needs
    samples: SamplesFactor
    learning_rate_factor: float  # of SGD; Adam's lies between this and its square root
    answer: Recommendation

    @property
    def size(self) -> int:
        """Samples per optimizer step."""
        return self.target.global_batch_size

    @property
    def plan(self) -> Plan | None:
        """The best one at this size."""
        return self.answer.best


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChoice:
    """The sizes of a range that were compared, ascending, and the one that was chosen.

    Where the noise scale is not known there is only the reference, and ``problem`` says why.
    """

    range: BatchRange
    reference: int  # of which the user gave the number of samples
    chosen: BatchOption
    options: tuple[BatchOption, ...]
    noise: GradientNoise | None
    scale: NoiseScale | None
    problem: str = ""


def choose_batch_size(
    target: Target,
    sizes: BatchRange,
    measurements: Sequence[Measurement],
    confidence: float,
    recommend_at: Callable[[Target], Recommendation],
) -> BatchChoice:
    """The size with the cheapest plan within budget and deadline; the reference where none is cheaper.

    Args:
        target: at the reference batch size.
        sizes: what may be chosen.
        measurements: of the workload; the latest gradient noise among them counts.
        confidence: of the interval of the noise scale.
        recommend_at: the answer for a target.
    """
    noise = next((one.noise for one in reversed(measurements) if one.noise is not None), None)
    scale = None if noise is None else noise_scale(noise, confidence)
    reference = target.global_batch_size
    compared = (reference,) if scale is None else sizes.sizes(reference)
    options = tuple(_option(target, one, scale, recommend_at) for one in compared)
    return BatchChoice(
        range=sizes,
        reference=reference,
        chosen=_cheapest(options, reference),
        options=options,
        noise=noise,
        scale=scale,
        problem="" if scale is not None else _problem(noise, measurements),
    )


def _option(
    target: Target, size: int, scale: NoiseScale | None, recommend_at: Callable[[Target], Recommendation]
) -> BatchOption:
    reference = target.global_batch_size
    if scale is None or size == reference:
        samples, rate = SamplesFactor(low=1.0, expected=1.0, high=1.0), 1.0
        there = target
    else:
        samples = samples_factors(scale, size, reference)
        rate = learning_rate_factor(scale.expected, size, reference)
        there = replace(
            target,
            global_batch_size=size,
            samples=math.ceil(target.samples * samples.expected),
            samples_low=target.samples * samples.low,
            samples_high=math.ceil(target.samples * samples.high),
        )
    return BatchOption(target=there, samples=samples, learning_rate_factor=rate, answer=recommend_at(there))


def _cheapest(options: Sequence[BatchOption], reference: int) -> BatchOption:
    """Another size means tuning anew, so the reference stays where nothing is cheaper beyond noise."""
    best = min(options, key=lambda one: (*_lacks(one), _cost_usd(one)))
    own = next(one for one in options if one.size == reference)
    is_as_good = _lacks(own) == _lacks(best) and _cost_usd(own) <= _cost_usd(best) * (1 + NEGLIGIBLE_FRACTION)
    return own if is_as_good else best


def _lacks(one: BatchOption) -> tuple[bool, bool]:
    """Whether it has no plan within the limits, and none of known cost."""
    return one.answer.winner is None, one.plan is None or not one.plan.is_cost_known


def _cost_usd(one: BatchOption) -> float:
    return math.inf if one.plan is None else one.plan.weighed_usd.expected


def _problem(noise: GradientNoise | None, measurements: Sequence[Measurement]) -> str:
    if noise is not None:
        return (
            f"in {len(noise.draws)} draws of {noise.big_batch_size} samples the gradient could not be told "
            "from its noise"
        )
    for one in reversed(measurements):
        for warning in one.warnings:
            if warning.startswith(UNMEASURED):
                return warning.removeprefix(f"{UNMEASURED}: ")
    return "no trial with one worker has measured it: sweep with the range, on a device that holds the model"
