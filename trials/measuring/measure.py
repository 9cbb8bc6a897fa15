"""Measures one trial on one rank: warm up until steady, time whole steps, keep raw times and peak memory.

All ranks call ``measure`` together. Times are the slowest rank's, so that every rank takes the same decisions
without being told.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from trials.extras import Extras, slowest
from trials.measuring.apart import Apart, time_apart
from trials.measuring.clock import Clock
from trials.measuring.environment import read_environment
from trials.measuring.extras import measure_extras
from trials.measuring.failures import Diverged, Unsupported, explain
from trials.measuring.isolate import isolated
from trials.measuring.memory import release
from trials.measuring.phases import disagreement_fraction, pass_s, phases_of, spread_phases
from trials.measuring.place import Place
from trials.measuring.precision import set_fp32_arithmetic
from trials.measuring.quality import half_width_fraction, has_warmed_up, warnings_of
from trials.measuring.step import StepMarks, Training
from trials.measuring.telemetry import Sampler, gpu_reader
from trials.measuring.wrap import refusal
from trials.model_file.workload import load
from trials.trial import Failure, FailureKind, Measurement, Phases, Series, TrialConfig, Workload

__all__ = ["MeasureSettings", "Place", "measure", "merge"]

INTERPOLATED_FROM = 5  # accumulation from which a trial times two smaller counts instead
_SMALL_ACCUMULATIONS = (1, 3)
_BLOCK_STEPS = 5  # steps between two looks at the precision reached

# The most telling kind first: when one rank runs out of memory, the others only see it gone.
_TELLING = (
    FailureKind.OUT_OF_MEMORY,
    FailureKind.DIVERGED,
    FailureKind.USER_CODE,
    FailureKind.UNSUPPORTED,
    FailureKind.WRONG_DEVICE,
    FailureKind.TIMED_OUT,
    FailureKind.WORKER_LOST,
    FailureKind.BUSY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """How long and how exactly a trial is measured."""

    warmup_min: int = 3  # steps, the first included
    warmup_max: int = 15
    timed_min: int = 10
    timed_max: int = 100
    half_width_fraction: float = 0.02  # of the median's 95% interval
    max_s: float = 30.0  # of timed steps in all; timed_min steps are taken in any case
    loss_count: int = 50
    seed: int = 0
    loader_worker_count: int | None = None  # None: the file's own, 0 for dataset()
    is_full: bool = False  # large accumulation is run in full, not interpolated
    is_split: bool = True  # passes after the steps tell synchronisation and launches from the rest
    telemetry_period_s: float = 0.1


def measure(
    workload: Workload,
    config: TrialConfig,
    place: Place,
    settings: MeasureSettings | None = None,
    extras: Extras | None = None,
) -> Measurement | Failure:
    """Run a trial. Every rank calls it; each returns its own view, see ``merge``. Nothing of it remains."""
    begun_s = time.perf_counter()
    with isolated(workload, place.threads):
        outcome = _attempt(workload, config, place, settings or MeasureSettings(), extras or Extras())
    release(place.torch_device)
    return replace(outcome, trial_s=time.perf_counter() - begun_s)


def merge(outcomes: Sequence[Measurement | Failure]) -> Measurement | Failure:
    """One outcome of all ranks', given in rank order: any failure wins, the most telling kind first."""
    failures = [(rank, one) for rank, one in enumerate(outcomes) if isinstance(one, Failure)]
    if failures:
        rank, worst = min(failures, key=lambda pair: _TELLING.index(pair[1].kind))
        reason = worst.reason if len(outcomes) == 1 else f"{worst.reason} (rank {rank} of {len(outcomes)})"
        return replace(worst, reason=reason, trial_s=max(one.trial_s for one in outcomes))
    ranks = [one for one in outcomes if isinstance(one, Measurement)]
    reserved = [one.peak_reserved_bytes for one in ranks]
    known = [one for one in reserved if one is not None]
    return replace(
        ranks[0],
        startup_s=max(one.startup_s for one in ranks),
        first_step_s=max(one.first_step_s for one in ranks),
        trial_s=max(one.trial_s for one in ranks),
        peak_allocated_bytes=tuple(size for one in ranks for size in one.peak_allocated_bytes),
        peak_reserved_bytes=tuple(size for one in known for size in one)
        if len(known) == len(ranks)
        else None,
        warnings=tuple(dict.fromkeys(warning for one in ranks for warning in one.warnings)),
        checkpoint=slowest([one.checkpoint for one in ranks if one.checkpoint is not None]),
        extras_s=max(one.extras_s for one in ranks),
    )


def _attempt(
    workload: Workload, config: TrialConfig, place: Place, settings: MeasureSettings, extras: Extras
) -> Measurement | Failure:
    """The trial, with what goes wrong as a Failure. Its tensors are gone when it returns."""
    try:
        return _measure(workload, config, place, settings, extras)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the user's code may raise anything)
        return explain(error, config, workload.path, trial_s=0.0)


def _measure(
    workload: Workload, config: TrialConfig, place: Place, settings: MeasureSettings, extras: Extras
) -> Measurement:
    begun_s = time.perf_counter()
    why = refusal(config, place)
    if why is not None:
        raise Unsupported(why)
    if place.torch_device.type == "cuda":
        torch.cuda.set_device(place.torch_device)
    set_fp32_arithmetic(config.precision)
    torch.manual_seed(settings.seed)
    loaded = place.together(lambda: load(workload))
    training = Training(loaded, config, place, settings.seed, settings.loader_worker_count)
    try:
        training.memory.start()
        startup_s = time.perf_counter() - begun_s
        run = _Run(training, place, settings)
        accumulations = _accumulations(config, settings)
        first_step_s = run.time_steps(1, accumulations[0])[0]
        with Sampler(gpu_reader(place.torch_device), settings.telemetry_period_s) as sampler:
            series = run.time_series(accumulations)
        losses = run.losses[: settings.loss_count]
        allocated, reserved = training.memory.read(lambda: run.time_steps(1, accumulations[-1]))
        besides = measure_extras(extras, training, config, place)  # nothing that counts may feel it
        parts = run.phases()  # last, since its passes spoil the training
    finally:
        training.close()
    bare = Measurement(
        config=config,
        series=series,
        is_steady=all(
            half_width_fraction(one.step_times_s) <= settings.half_width_fraction for one in series
        ),
        half_width_fraction=half_width_fraction(series[-1].step_times_s),
        warmup_step_count=run.warmup_step_count,
        startup_s=startup_s,
        first_step_s=first_step_s,
        trial_s=0.0,  # known when everything is cleaned up
        peak_allocated_bytes=(allocated,),
        peak_reserved_bytes=None if reserved is None else (reserved,),
        losses=tuple(place.mean(losses)),
        phases=None,
        telemetry=sampler.telemetry,
        environment=read_environment(place, config.node_count),
        checkpoint=besides.checkpoint,
        warnings=besides.warnings,
        extras_s=besides.spent_s,
    )
    return _judged(replace(bare, phases=spread_phases(parts, bare)), settings, run.disagreement_fraction)


def _judged(measurement: Measurement, settings: MeasureSettings, disagreement_fraction: float) -> Measurement:
    assert measurement.phases is not None
    found = [
        warning
        for one in measurement.series
        for warning in warnings_of(
            one.step_times_s,
            limit_fraction=settings.half_width_fraction,
            phases=measurement.phases,
            disagreement_fraction=disagreement_fraction,
            telemetry=measurement.telemetry,
        )
    ]
    return replace(measurement, warnings=(*dict.fromkeys(found), *measurement.warnings))


def _accumulations(config: TrialConfig, settings: MeasureSettings) -> tuple[int, ...]:
    if config.accumulation < INTERPOLATED_FROM or settings.is_full:
        return (config.accumulation,)
    return _SMALL_ACCUMULATIONS


class _Run:
    """Steps taken so far, and what came of them."""

    def __init__(self, training: Training, place: Place, settings: MeasureSettings) -> None:
        self._training = training
        self._place = place
        self._settings = settings
        self._clock = Clock(place.torch_device)
        self.warmup_step_count = 0
        self.losses: list[float] = []
        self.disagreement_fraction = 0.0  # of the phases with the whole
        self._marks: dict[int, list[StepMarks]] = {}  # of timed steps, by accumulation
        self._wall_s: dict[int, float] = {}  # of the same steps, by the host's clock

    def time_series(self, accumulations: Sequence[int]) -> tuple[Series, ...]:
        """Warm up until steady, then time steps until the medians are known well enough or a cap is reached.

        Several counts take turns, block by block, so that drift and foreign load meet all of them alike.
        """
        for index, one in enumerate(accumulations):
            self._warm_up(one, is_first=index == 0)
        self._marks = {one: [] for one in accumulations}
        self._wall_s = dict.fromkeys(accumulations, 0.0)
        times = {
            one: self.time_steps(self._settings.timed_min, one, self._marks[one]) for one in accumulations
        }
        while self._goes_on(list(times.values())):
            for one in accumulations:
                times[one] += self.time_steps(_BLOCK_STEPS, one, self._marks[one])
        return tuple(Series(accumulation=one, step_times_s=tuple(times[one])) for one in accumulations)

    def phases(self) -> dict[int, Phases]:
        """This rank's, by accumulation; every rank calls it, and takes no step afterwards."""
        clock, training = self._clock, self._training
        apart = Apart()
        if self._settings.is_split:
            one_pass_s = pass_s(next(iter(self._marks.values())), clock)
            apart = time_apart(training, training.config, self._place, clock, one_pass_s)
        found = {}
        for accumulation, steps in self._marks.items():
            times = [clock.seconds(one.start, one.end) for one in steps]
            found[accumulation] = phases_of(steps, clock, training.config, apart)
            off = disagreement_fraction(
                found[accumulation], statistics.median(times), math.fsum(times), self._wall_s[accumulation]
            )
            self.disagreement_fraction = max(self.disagreement_fraction, off)
        return found

    def _goes_on(self, series: Sequence[Sequence[float]]) -> bool:
        settings = self._settings
        return (
            any(half_width_fraction(times) > settings.half_width_fraction for times in series)
            and len(series[0]) < settings.timed_max
            and sum(math.fsum(times) for times in series) < settings.max_s
        )

    def _warm_up(self, accumulation: int, *, is_first: bool) -> None:
        """Until two windows of steps agree; a second count starts warm and takes the fewest steps."""
        settings = self._settings
        times: list[float] = []
        while len(times) + 1 < settings.warmup_max:
            if len(times) + 1 >= settings.warmup_min and (not is_first or has_warmed_up(times)):
                break
            times += self.time_steps(1, accumulation)
        self.warmup_step_count += len(times) + is_first  # the very first step was taken before

    def time_steps(self, count: int, accumulation: int, marks: list[StepMarks] | None = None) -> list[float]:
        """Seconds of each of ``count`` steps on the slowest rank. Raises Diverged on all ranks together."""
        clock = self._clock
        clock.settle()
        begun_s = time.perf_counter()
        start = clock.mark()
        taken, losses = [], []
        for _ in range(count):
            loss, step = self._training.run_step(accumulation, clock, start)
            start = step.end
            taken.append(step)
            losses.append(loss)
        clock.settle()
        wall_s = time.perf_counter() - begun_s
        values = torch.stack(losses).tolist()
        self.losses += values
        is_diverged = float(not all(map(math.isfinite, values)))
        own = [clock.seconds(one.start, one.end) for one in taken]
        *times, has_diverged = self._place.largest([*own, is_diverged])
        if has_diverged:
            raise Diverged(self._divergence())
        if marks is not None:
            marks += taken
            self._wall_s[accumulation] += wall_s
        return times

    def _divergence(self) -> str:
        for index, loss in enumerate(self.losses):
            if not math.isfinite(loss):
                return f"the loss became {loss} at step {index + 1}"
        return "the loss of another rank is not finite"
