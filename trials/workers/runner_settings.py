"""How trials are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trials.cluster.discovery import ignore
from trials.extras import Extras
from trials.measurement import Measurement
from trials.trial import TrialConfig
from trials.workers.group_plan import IdentifyFunction, MeasureFunction, MergeFunction
from trials.workers.limits import SCHEDULE_FRACTION, START_LIMIT_S, limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """How trials are run.

    ``measure``, ``merge`` and ``identify`` are the seams into a worker: ``"module:function"`` or a picklable
    function. Tests put faults and false identities there.
    """

    measure: str | MeasureFunction = "trials.measuring.measure:measure"
    merge: str | MergeFunction = "trials.measuring.measure:merge"
    measure_settings: object | None = None  # handed to ``measure``
    extras: Extras = field(default_factory=Extras)  # the first trial of each shape of workers measures them
    identify: str | IdentifyFunction = "trials.machine.identity:device_name"
    worker_counts: Mapping[str, int] = field(
        default_factory=dict
    )  # by catalog GPU: the most a trial will want
    limit_s: Callable[[TrialConfig, Sequence[Measurement]], float] = limit_s
    start_limit_s: float = START_LIMIT_S  # for workers to start or to come back
    schedule_limit_s: float = START_LIMIT_S * SCHEDULE_FRACTION  # of it, for the devices to be given
    wait_s: float = 0.0  # for devices that others use
    on_wait: Callable[[str], None] = ignore
