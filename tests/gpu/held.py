"""A trial that also tells which process it ran in and what that still holds of the GPU afterwards."""

from __future__ import annotations

import gc
import os
from dataclasses import replace

import torch

from trials.measurement import Outcome
from trials.measuring import measure as measuring
from trials.trial import Failure


def measure(workload, trial, place, settings, extras) -> Outcome:
    """The real measurement; process id and bytes held in ``detail``, or as the last warning."""
    outcome = measuring.measure(workload, trial, place, settings, extras)
    gc.collect()
    held = 0 if place.device == "cpu" else torch.cuda.memory_allocated(place.device)
    told = f"{os.getpid()} {held}"
    if isinstance(outcome, Failure):
        return replace(outcome, detail=told)
    return replace(outcome, warnings=(*outcome.warnings, told))
