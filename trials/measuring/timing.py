"""Takes the steps of a trial on one rank and keeps their times, losses and phases.

All ranks take the same steps together. Times are the slowest rank's, so that every rank takes the same
decisions without being told.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

import torch

from trials.errors import Diverged
from trials.measurement import Phases, Series
from trials.measuring.clock import Clock
from trials.measuring.exposed_communication import SilentPasses, time_silent_passes
from trials.measuring.phases import disagreement_fraction, passes_s, phases_of
from trials.measuring.quality import has_warmed_up
from trials.measuring.settings import MeasureSettings
from trials.measuring.step import StepMarks, Training
from trials.rank_context import RankContext
from trials.step_times import half_width_fraction

_BLOCK_STEPS = 5  # steps between two looks at the precision reached


class StepTimer:
    """Steps taken so far, and what came of them."""

    def __init__(self, training: Training, context: RankContext, settings: MeasureSettings) -> None:
        self._training = training
        self._context = context
        self._settings = settings
        self._clock = Clock(context.torch_device)
        self.warmup_step_count = 0
        self.losses: list[float] = []
        self.disagreement_fraction = 0.0  # of the phases with the whole
        self._marks: dict[int, list[StepMarks]] = {}  # of timed steps, by accumulation
        self._wall_s: dict[int, float] = {}  # of the same steps, by the host's clock

    def time_series(self, accumulations: Sequence[int]) -> tuple[Series, ...]:
        """Warm up until steady, then time steps until the means are known well enough or a cap is reached.

        Several counts take turns, block by block, so that drift and foreign load meet all of them alike.
        """
        for index, count in enumerate(accumulations):
            self._warm_up(count, is_first=index == 0)
        self._marks = {count: [] for count in accumulations}
        self._wall_s = dict.fromkeys(accumulations, 0.0)
        times = {
            count: self.time_steps(self._settings.timed_min, count, self._marks[count])
            for count in accumulations
        }
        while self._goes_on(list(times.values())):
            for count in accumulations:
                times[count] += self.time_steps(_BLOCK_STEPS, count, self._marks[count])
        return tuple(Series(accumulation=count, step_times_s=tuple(times[count])) for count in accumulations)

    def phases(self) -> dict[int, Phases]:
        """Phases of this rank's steps, by accumulation; every rank calls it, and takes no step after."""
        clock, training = self._clock, self._training
        silent = SilentPasses()
        if self._settings.is_split:
            trained_s = passes_s(next(iter(self._marks.values())), clock)
            silent = time_silent_passes(training, training.config, self._context, clock, trained_s)
        found = {}
        for accumulation, steps in self._marks.items():
            times = [clock.seconds(one.start, one.end) for one in steps]
            found[accumulation] = phases_of(steps, clock, training.config, silent)
            off = disagreement_fraction(
                found[accumulation], statistics.fmean(times), math.fsum(times), self._wall_s[accumulation]
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
        *times, has_diverged = self._context.largest([*own, is_diverged])
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
