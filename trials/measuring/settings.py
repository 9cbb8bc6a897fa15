"""How a trial is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trials.trial import Purpose

_CURVE_STEPS = 40  # of a guard's trial, at each accumulation count; it takes no others that depend on time
_CONFIRMING_STEPS = 50  # on the longest batch, beyond the timed ones


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """How long and how exactly a trial is measured."""

    warmup_min: int = 3  # steps, the first included
    warmup_max: int = 15
    timed_min: int = 10
    timed_max: int = 100
    half_width_fraction: float = 0.02  # of the mean's 95% interval
    max_s: float = 30.0  # of timed steps in all; timed_min steps are taken in any case
    loss_count: int = 50
    seed: int = 0
    loader_worker_count: int | None = None  # None: the file's own, 0 for dataset()
    is_full: bool = False  # large accumulation is run in full, not interpolated
    is_split: bool = True  # passes after the steps tell synchronisation and launches from the rest
    confirming_steps: int = 0  # after the timed ones, for memory only: on the longest batch the data can give
    telemetry_period_s: float = 0.1


def settings_for(purpose: Purpose, settings: object | None = None) -> MeasureSettings:
    """How a trial of this purpose is measured where one of the search is measured by ``settings``."""
    base = settings if isinstance(settings, MeasureSettings) else MeasureSettings()
    if purpose is Purpose.PROBE:
        return replace(base, warmup_min=2, warmup_max=2, timed_min=3, timed_max=3, is_split=False)
    if purpose is Purpose.CONFIRM:
        return replace(base, warmup_min=2, warmup_max=3, is_full=True, confirming_steps=_CONFIRMING_STEPS)
    if purpose is Purpose.GUARD:
        return replace(
            base, warmup_min=1, warmup_max=2, timed_min=_CURVE_STEPS, timed_max=_CURVE_STEPS,
            loss_count=2 * _CURVE_STEPS, is_split=False,
        )  # fmt: skip
    return base
