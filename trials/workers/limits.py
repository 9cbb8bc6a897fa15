"""How long a trial may take before it is taken for hung. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from trials.measurement import Measurement
from trials.trial import TrialConfig

FIRST_LIMIT_S = 600.0
START_LIMIT_S = 240.0  # for workers to start or to come back
SCHEDULE_FRACTION = 0.25  # of it, for the devices to be given
LEAST_LIMIT_S = 60.0
CONFIRMING_STEPS = 100  # more whole steps than a confirmation ever takes
FACTOR = 4.0  # over what is expected: a batch size or a precision may be slow in ways that none seen was


def limit_s(config: TrialConfig, seen: Sequence[Measurement]) -> float:
    """Seconds for a trial of ``config``, after ``seen`` of the same workload in the same group.

    Expected time is the longest start-up and first step seen, and the trial's time per sample at the slowest
    throughput per worker seen. A first trial, and the first with a technique, has ``FIRST_LIMIT_S``, since
    nothing tells how long they take.
    """
    alike = [past for past in seen if set(config.techniques) <= set(past.config.techniques)]
    if not alike:
        return FIRST_LIMIT_S
    fixed_s = max(past.startup_s + past.first_step_s for past in alike)
    per_sample_s = max(
        max(0.0, past.trial_s - past.extras_s - past.startup_s - past.first_step_s)
        / _samples_per_worker(past.config)
        for past in alike
    )
    expected_s = fixed_s + per_sample_s * _samples_per_worker(config)
    return min(FIRST_LIMIT_S, max(LEAST_LIMIT_S, FACTOR * expected_s))


def confirming_limit_s(config: TrialConfig, seen: Sequence[Measurement]) -> float:
    """The same for a confirmation, which takes whole steps at the full accumulation.

    A step may take as long as the slowest of this configuration that was seen; where none was, only
    ``FIRST_LIMIT_S`` holds.
    """
    step_s = max((one.step_time_s for one in seen if one.config == config), default=0.0)
    return max(FIRST_LIMIT_S, FACTOR * CONFIRMING_STEPS * step_s)


def _samples_per_worker(config: TrialConfig) -> int:
    return config.micro_batch_size * config.accumulation
