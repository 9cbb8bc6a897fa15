"""Small reports with numbers that can be checked by hand, for every output's tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from catalogs.gpus import Gpu
from catalogs.offers import Offer
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.plans.numerics_check import Guard
from planner.plans.recommend import recommend
from planner.plans.space import Exclusion
from planner.reports.report import Report, SweepSummary, TrialRecord
from planner.target import Target
from tests.builders import (
    GIB,
    TODAY,
    FakeEstimator,
    make_assumptions,
    make_config,
    make_cpu,
    make_environment,
    make_failure,
    make_gpu,
    make_measurement,
    make_offer,
    make_profile,
    make_target,
    make_workload,
)
from trials.measurement import Outcome
from trials.profile import WorkloadProfile
from trials.trial import Parallelism, Precision, TrialConfig

L4, A100, CPU = make_gpu(), make_gpu("A100-SXM4-80GB", memory_bytes=80 * GIB), make_cpu()
GPUS = {one.name: one for one in (L4, A100, CPU)}
BF16 = make_config(precision=Precision.BF16)
_CURVE = tuple(4.0 - 0.05 * step for step in range(42))
TRAINS = Guard(
    config=BF16, losses=_CURVE, reference=make_config(), reference_losses=_CURVE, rejection=""
)  # bf16's loss was held against fp32's
STARTED = {"startup_s": 0.0, "first_step_s": 0.0}  # so that a run is its steps and nothing else
OFFERS = (
    make_offer(price_usd_per_hour=0.72, instance_type="g2-standard-8"),
    make_offer(A100.name, price_usd_per_hour=3.6, instance_type="a2-ultragpu-1g"),
    make_offer(CPU.name, price_usd_per_hour=0.36, instance_type="n2-standard-8"),
)


def make_report(
    offers: Sequence[Offer] = OFFERS,
    outcomes: Sequence[Outcome] | None = None,
    *,
    estimator: FakeEstimator | None = None,
    target: Target | None = None,
    today: date = TODAY,
    assumptions: CostAssumptions | None = None,
    **changes: Any,
) -> Report:
    """A sweep on one L4 of a run of 36,000 steps: bf16 takes 0.5 s a step, which was measured."""
    if outcomes is None:
        outcomes = (
            make_measurement(make_config(), step_time_s=1.0, trial_s=30.0, **STARTED),
            make_measurement(BF16, step_time_s=0.5, trial_s=20.0, **STARTED),
            make_failure(make_config(micro_batch_size=32, accumulation=1), trial_s=10.0),
        )
    recommendation = recommend(
        target=target or make_target(samples=36_000 * 32, budget_usd=100.0, deadline_s=36_000.0),
        profile=make_profile(tokens_per_sample=1024),
        offers=offers,
        gpus=GPUS,
        outcomes=outcomes,
        estimator=estimator or FakeEstimator(step_s=seconds, spread=0.2, measured=(make_config(), BF16)),
        configs_for=configs,
        today=today,
        assumptions=assumptions or make_assumptions(),
        sweep_usd=0.012,
    )
    figures: dict[str, Any] = {
        "recommendation": recommendation,
        "study": "gpt-01234567",
        "workload": make_workload(),
        "profile": make_profile(tokens_per_sample=1024),
        "trials": tuple(
            TrialRecord(number=number, outcome=one, cost_usd=one.trial_s * 0.72 / 3600)
            for number, one in enumerate(outcomes)
        ),
        "exclusions": (Exclusion(knob="fsdp2", reason="no repeated blocks were found in this model"),),
        "sweep": SweepSummary(spent_usd=0.012, wall_s=75.0, stopped_because="no trial is worth its price"),
        "generated_at": datetime(2025, 6, 2, 14, 3, tzinfo=UTC),
        "planner_version": "0.1.0",
    }
    return Report(**{**figures, **changes})


def make_cpu_report(**changes: Any) -> Report:
    """Nothing but a CPU was measured."""
    config = make_config(CPU.name)
    host = make_environment(
        device_name="Xeon", device_memory_bytes=32 * GIB, driver=None, cuda=None, threads_per_worker=8
    )
    measured = make_measurement(
        config, step_time_s=10.0, peak_reserved_bytes=None, environment=host, **STARTED
    )
    return make_report(
        outcomes=(measured,),
        estimator=FakeEstimator(step_s=seconds, spread=0.5, measured=(config,)),
        **changes,
    )


def seconds(config: TrialConfig) -> float:
    """Per step: 1 s on the L4, 0.25 s on the A100, 10 s on the CPU; bf16 twice as fast."""
    whole = {L4.name: 1.0, A100.name: 0.25, CPU.name: 10.0}[config.gpu]
    return whole / config.gpu_count / (2 if config.precision == Precision.BF16 else 1)


def configs(
    target: Target, gpu: Gpu, gpu_count: int, node_count: int, profile: WorkloadProfile
) -> tuple[TrialConfig, ...]:
    """Micro batch 8 in fp32 and, on a GPU, bf16; on one node only."""
    if node_count > 1:
        return ()
    return tuple(
        make_config(
            gpu.name,
            gpu_count=gpu_count,
            accumulation=4 // gpu_count,
            precision=precision,
            parallelism=Parallelism.SINGLE if gpu_count == 1 else Parallelism.DDP,
        )
        for precision in ((Precision.FP32,) if gpu is CPU else (Precision.FP32, Precision.BF16))
    )
