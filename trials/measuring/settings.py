"""How a trial is measured."""

from __future__ import annotations

from dataclasses import dataclass


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
