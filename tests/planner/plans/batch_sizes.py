"""Runs at several global batch sizes, whose costs can be checked by hand."""

from __future__ import annotations

from functools import partial

from planner.plans.batch_size import BatchChoice, choose_batch_size
from planner.plans.recommend import recommend
from planner.plans.recommendation import Recommendation
from planner.plans.space import configs_for
from planner.target import BatchRange, Target
from tests.builders import (
    TODAY,
    FakeEstimator,
    make_assumptions,
    make_gpu,
    make_measurement,
    make_noise,
    make_offer,
    make_profile,
    make_target,
)
from trials.trial import TrialConfig

L4 = make_gpu()
LAUNCH_S, SAMPLE_S = 0.1, 0.001
SIZES = BatchRange(low=32, high=256)
SAMPLES = 3_200_000  # for a batch of 32


def seconds(config: TrialConfig) -> float:
    """A tenth of a second for each micro batch, and a millisecond for each sample."""
    return (LAUNCH_S + SAMPLE_S * config.micro_batch_size) * config.accumulation


def answer_at(target: Target, *, spread: float = 0.0) -> Recommendation:
    """On one L4 at $3.6 an hour: a thousandth of a dollar for each second of steps."""
    return recommend(
        target=target,
        profile=make_profile(),
        offers=(make_offer(price_usd_per_hour=3.6, billing_increment_s=1),),
        gpus={L4.name: L4},
        outcomes=(),
        estimator=FakeEstimator(step_s=seconds, peak_bytes=lambda _: 1e9, spread=spread),
        configs_for=configs_for,
        today=TODAY,
        assumptions=make_assumptions(),
        sweep_usd=0.0,
    )


def chosen(
    scale: float | None, target: Target | None = None, *, spread: float = 0.0, checkpoint: str | None = None
) -> BatchChoice:
    """Of a noise scale that is exactly ``scale``; None: it was not measured."""
    noise = None if scale is None else make_noise(scale, checkpoint=checkpoint)
    target = target or make_target(samples=SAMPLES, batch_range=SIZES)
    measured = [make_measurement(noise=noise)]
    return choose_batch_size(target, SIZES, measured, 0.9, partial(answer_at, spread=spread))
