"""Measures one trial on one rank: warm up until steady, time whole steps, keep raw times and peak memory.

All ranks call ``measure`` together. Times are the slowest rank's, so that every rank takes the same decisions
without being told.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from trials.errors import Unsupported
from trials.extras import Extras, slowest
from trials.machine.host_load import HostLoad
from trials.measurement import Measurement
from trials.measuring.environment import read_environment
from trials.measuring.extras import measure_extras
from trials.measuring.failures import explain
from trials.measuring.isolate import isolated
from trials.measuring.memory import forget_peak, fullest, peak_bytes, release
from trials.measuring.phases import own_work_s, spread_phases
from trials.measuring.quality import warnings_of, warnings_of_ranks
from trials.measuring.settings import MeasureSettings
from trials.measuring.step import Training
from trials.measuring.telemetry import Sampler, all_ranks, gpu_reader
from trials.measuring.timing import StepTimer
from trials.measuring.wrap import refusal
from trials.model_file.workload import load
from trials.modes import PRECISIONS
from trials.rank_context import RankContext
from trials.step_times import half_width_fraction
from trials.trial import Failure, FailureKind, TrialConfig, Workload

__all__ = ["MeasureSettings", "RankContext", "measure", "merge"]

INTERPOLATED_FROM = 5  # accumulation from which a trial times two smaller counts instead
_SMALL_ACCUMULATIONS = (1, 3)

# The most telling kind first: when one rank runs out of memory, the others only see it gone.
_TELLING = (
    FailureKind.OUT_OF_MEMORY,
    FailureKind.DIVERGED,
    FailureKind.USER_CODE,
    FailureKind.UNSUPPORTED,
    FailureKind.WRONG_DEVICE,
    FailureKind.TIMED_OUT,
    FailureKind.COMMUNICATION_FAILED,
    FailureKind.WORKER_LOST,
    FailureKind.BUSY,
)


def measure(
    workload: Workload,
    config: TrialConfig,
    context: RankContext,
    settings: MeasureSettings | None = None,
    extras: Extras | None = None,
) -> Measurement | Failure:
    """Run a trial. Every rank calls it; each returns its own view, see ``merge``. Nothing of it remains."""
    begun_s = time.perf_counter()
    with isolated(workload, context.threads) as left:
        outcome = _attempt(workload, config, context, settings or MeasureSettings(), extras or Extras())
    release(context.torch_device)
    if isinstance(outcome, Measurement):
        outcome = replace(outcome, warnings=(*outcome.warnings, *left))
    return replace(outcome, trial_s=time.perf_counter() - begun_s)


def merge(outcomes: Sequence[Measurement | Failure]) -> Measurement | Failure:
    """One outcome of all ranks', given in rank order: any failure wins, the most telling kind first."""
    failures = [(rank, one) for rank, one in enumerate(outcomes) if isinstance(one, Failure)]
    if failures:
        rank, worst = min(failures, key=lambda pair: _TELLING.index(pair[1].kind))
        reason = worst.reason if len(outcomes) == 1 else f"{worst.reason} (rank {rank} of {len(outcomes)})"
        return replace(worst, reason=reason, trial_s=max(one.trial_s for one in outcomes))
    ranks = [outcome for outcome in outcomes if isinstance(outcome, Measurement)]
    reserved = [rank.peak_reserved_bytes for rank in ranks]
    known = [sizes for sizes in reserved if sizes is not None]
    foreign = [rank.foreign_cpu_fraction for rank in ranks]
    works_s = tuple(work_s for rank in ranks for work_s in rank.own_work_s)
    works_s = works_s if len(works_s) == len(ranks) else ()
    found = warnings_of_ranks([rank.telemetry for rank in ranks], foreign, works_s)
    return replace(
        ranks[0],
        startup_s=max(one.startup_s for one in ranks),
        first_step_s=max(one.first_step_s for one in ranks),
        trial_s=max(one.trial_s for one in ranks),
        peak_allocated_bytes=tuple(size for one in ranks for size in one.peak_allocated_bytes),
        peak_reserved_bytes=tuple(size for one in known for size in one)
        if len(known) == len(ranks)
        else None,
        peak_parts=fullest([one.peak_parts for one in ranks if one.peak_parts is not None]),
        usable_memory_bytes=min(
            (rank.usable_memory_bytes for rank in ranks if rank.usable_memory_bytes is not None), default=None
        ),
        warnings=tuple(dict.fromkeys((*found, *(warning for rank in ranks for warning in rank.warnings)))),
        telemetry=all_ranks([rank.telemetry for rank in ranks if rank.telemetry is not None]),
        foreign_cpu_fraction=max((share for share in foreign if share is not None), default=None),
        own_work_s=works_s,
        checkpoint=slowest([one.checkpoint for one in ranks if one.checkpoint is not None]),
        extras_s=max(one.extras_s for one in ranks),
    )


def _attempt(
    workload: Workload, config: TrialConfig, context: RankContext, settings: MeasureSettings, extras: Extras
) -> Measurement | Failure:
    """The trial, with what goes wrong as a Failure. Its tensors are gone when it returns."""
    try:
        return _measure(workload, config, context, settings, extras)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the user's code may raise anything)
        return explain(error, config, workload.path, trial_s=0.0)


def _measure(
    workload: Workload, config: TrialConfig, context: RankContext, settings: MeasureSettings, extras: Extras
) -> Measurement:
    begun_s = time.perf_counter()
    why = refusal(config, context)
    if why is not None:
        raise Unsupported(why)
    if context.torch_device.type == "cuda":
        torch.cuda.set_device(context.torch_device)
    torch.manual_seed(settings.seed)
    loaded = context.together(lambda: load(workload))
    worker_count = config.loader_worker_count
    if worker_count is None:
        worker_count = settings.loader_worker_count
    training = Training(loaded, config, context, settings.seed, worker_count)
    PRECISIONS[
        config.precision
    ].set_arithmetic()  # now: many a model file allows TF32, and the trial says fp32
    try:
        run = StepTimer(training, context, settings)
        found = _time_steps(run, training, context, settings, begun_s)
        if settings.is_split or not extras.is_nothing:
            _report(context, found, settings, begun_s)
        besides = measure_extras(extras, training, config, context)  # nothing that counts may feel it
        found = replace(
            found,
            checkpoint=besides.checkpoint,
            links=besides.links,
            noise=besides.noise,
            warnings=besides.warnings,
            extras_s=found.extras_s + besides.spent_s,
        )
        if settings.is_split and not extras.is_nothing:
            _report(context, found, settings, begun_s)
        parts = run.phases()  # last, since its passes spoil the training
    finally:
        training.close()
    found = replace(found, phases=spread_phases(parts, found), own_work_s=own_work_s(parts))
    return _judged(found, settings, run.disagreement_fraction)


def _time_steps(
    run: StepTimer, training: Training, context: RankContext, settings: MeasureSettings, begun_s: float
) -> Measurement:
    """Times and memory of the trial's steps: all that a plan needs, and nothing besides."""
    config = training.config
    forget_peak(context.torch_device)
    startup_s = time.perf_counter() - begun_s
    accumulations = _accumulations(config, settings)
    first_step_s = run.time_steps(1, accumulations[0])[0]
    card = gpu_reader(context.torch_device)
    with Sampler(card, settings.telemetry_period_s) as sampler, HostLoad() as host:
        series = run.time_series(accumulations)
    (own_s,) = context.mean([host.own_s])
    losses = run.losses[: settings.loss_count]
    look_begun_s = time.perf_counter()
    do_vary = training.use_longest_batch()
    look_s = time.perf_counter() - look_begun_s  # at the lengths of samples: not again in later trials
    count = max(settings.confirming_steps, int(do_vary))
    if count:  # where lengths vary, a trial's memory is that of its longest batch
        run.time_steps(count, min(2, config.accumulation))  # gradients are kept
    peak = peak_bytes(context.torch_device, training, lambda: run.time_steps(1, accumulations[-1]))
    half_widths = [half_width_fraction(one.step_times_s) for one in series]
    return Measurement(
        config=config,
        series=series,
        is_steady=max(half_widths) <= settings.half_width_fraction,
        half_width_fraction=half_widths[-1],
        warmup_step_count=run.warmup_step_count,
        startup_s=startup_s,
        first_step_s=first_step_s,
        trial_s=0.0,  # known when everything is cleaned up
        peak_allocated_bytes=(peak.allocated_bytes,),
        peak_reserved_bytes=None if peak.reserved_bytes is None else (peak.reserved_bytes,),
        peak_parts=peak.parts,
        usable_memory_bytes=peak.usable_bytes,
        losses=tuple(context.mean(losses)),
        phases=None,
        telemetry=sampler.telemetry,
        foreign_cpu_fraction=host.foreign_fraction(own_s * context.world_size / config.node_count),
        environment=read_environment(context, config.node_count),
        extras_s=look_s,
    )


def _report(context: RankContext, found: Measurement, settings: MeasureSettings, begun_s: float) -> None:
    """What stands, before anything that might end the trial is measured."""
    if context.report is not None:
        now = replace(_judged(found, settings, 0.0), trial_s=time.perf_counter() - begun_s)
        context.report(now)


def _judged(measurement: Measurement, settings: MeasureSettings, disagreement_fraction: float) -> Measurement:
    found = [
        warning
        for series in measurement.series
        for warning in warnings_of(
            series.step_times_s,
            limit_fraction=settings.half_width_fraction,
            phases=measurement.phases,
            disagreement_fraction=disagreement_fraction,
        )
    ]
    return replace(measurement, warnings=(*dict.fromkeys(found), *measurement.warnings))


def _accumulations(config: TrialConfig, settings: MeasureSettings) -> tuple[int, ...]:
    if config.accumulation < INTERPOLATED_FROM or settings.is_full:
        return (config.accumulation,)
    return _SMALL_ACCUMULATIONS
