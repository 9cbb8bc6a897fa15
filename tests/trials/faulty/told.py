"""A trial that also tells which processes it ran in, as its warnings."""

from __future__ import annotations

import os
from dataclasses import replace

from trials.measurement import Outcome
from trials.measuring import measure as measuring
from trials.trial import Failure


def measure(workload, trial, place, settings, extras) -> Outcome:
    """The real measurement; each rank's process id is its only warning."""
    outcome = measuring.measure(workload, trial, place, settings, extras)
    return outcome if isinstance(outcome, Failure) else replace(outcome, warnings=(str(os.getpid()),))
