"""What the moments inside a step cannot tell apart, by passes that are timed once the steps are done.

* Gradient synchronisation overlaps the backward pass, so it is what communication *adds*: the pass as trained
  less the same pass without communication (DDP's ``no_sync``; FSDP2 with its shards kept gathered). A hook or
  a profiler would see each collective, but slows the very steps that are timed, and counts what is hidden.
* What a pass takes whatever its size (the host's own work, launches, weights) is where the line through two
  batch sizes meets zero.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trials.measuring.clock import Clock
from trials.measuring.step import Training
from trials.modes import techniques_of
from trials.rank_context import RankContext
from trials.trial import TrialConfig

SMALL_SIZE = 2  # BatchNorm on 1x1 maps refuses 1
_SIZE_RATIO_MIN = 2  # between the two sizes, for a line
_PASS_COUNT = 5  # after one that is not counted
_SLOW_PASS_S = 2.0  # of which two are enough


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentPasses:
    """What passes without communication take: seconds of one micro batch on one rank; None is not known."""

    pass_s: float | None = None  # forward and backward without communication
    launch_s: float | None = None  # of it, what no smaller batch avoids


def time_silent_passes(
    training: Training, config: TrialConfig, context: RankContext, clock: Clock, trained_s: Sequence[float]
) -> SilentPasses:
    """What passes take without communication; every rank calls it, after the last step that counts.

    Only the first of them communicates. A rank that fails in it ends the trial, whose steps are reported by
    then; one that fails in the others costs the passes alone.

    Args:
        training: its weights and gradients are spoilt.
        config: of the trial.
        context: of this rank.
        clock: of its device.
        trained_s: seconds of passes as trained, on this rank.
    """
    (slowest_s,) = context.largest([statistics.median(trained_s)])
    count = 1 + (_PASS_COUNT if slowest_s < _SLOW_PASS_S else 2)

    def timed(size: int | None) -> Sequence[float] | None:
        return _attempt(lambda: training.time_passes(size, count, clock), context)

    silent_s: Sequence[float] | None = trained_s
    if context.world_size > 1:
        silent_s = None
        if training.can_be_silent():
            training.time_passes(None, 1, clock)  # FSDP2 gathers its shards once more, DDP sends its buffers
            silent_s = timed(None)
    if silent_s is None:
        return SilentPasses()
    pass_s, launch_s = statistics.median(silent_s), None
    size = config.micro_batch_size
    is_any_shape = not any(one.is_fixed_shape for one in techniques_of(config))
    if size >= SMALL_SIZE * _SIZE_RATIO_MIN and is_any_shape and (small_s := timed(SMALL_SIZE)):
        least_s = min(silent_s)  # what else the host does only adds, and never to both sizes alike
        launch_s = pass_s * intercept_s(SMALL_SIZE, min(small_s), size, least_s) / least_s
    return SilentPasses(pass_s=pass_s, launch_s=launch_s)


def intercept_s(small: int, small_s: float, large: int, large_s: float) -> float:
    """Where the line through two sizes meets zero; not below it, and not above the larger size's time."""
    at_zero_s = (large * small_s - small * large_s) / (large - small)
    return min(max(at_zero_s, 0.0), large_s)


def _attempt(time_passes: Callable[[], list[float]], context: RankContext) -> list[float] | None:
    """All but the first pass; None where a rank cannot: the trial has its measurement."""
    try:
        return context.together(time_passes)[1:]
    except (Exception, SystemExit):  # noqa: BLE001  (a model may refuse the small batch, memory may not do)
        return None
