"""Which trial deserves a second look: one that was disturbed, and the winner before it is recommended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.estimate import Estimate
from planner.plans.ties import is_tied_here, preference
from trials.api import Measurement, Outcome, Purpose, TrialConfig

NEAR_FRACTION = 0.85  # of the memory, from which the winner's peak is confirmed over many steps
NEAR_FRACTION_VARYING = 0.5  # the same where samples come from a dataset, whose lengths may vary
CONFIRMATIONS_MAX = 3  # of one study: noise may make one winner after the other


def is_to_be_repeated(config: TrialConfig, outcomes: Sequence[Outcome]) -> str:
    """Why a configuration's only trial is run once more; "" where it is not."""
    own = [one for one in outcomes if one.config == config]
    if len(own) != 1 or not isinstance(own[0], Measurement) or own[0].purpose is not Purpose.SEARCH:
        return ""
    disturbance = own[0].disturbance
    return f"once more, since it was {disturbance}" if disturbance else ""


def is_to_be_confirmed(
    winner: TrialConfig, outcomes: Sequence[Outcome], memory_bytes: int, *, has_dataset: bool
) -> str:
    """Why the winner is run in full; "" where its trial says all, or it has been."""
    confirmed = [one.config for one in outcomes if one.purpose is Purpose.CONFIRM]
    own = [one for one in outcomes if one.config == winner and isinstance(one, Measurement)]
    if winner in confirmed or len(confirmed) >= CONFIRMATIONS_MAX or not own:
        return ""
    last = own[-1]
    if last.is_interpolated:
        return "the winner in full, since its step was interpolated"
    near = NEAR_FRACTION_VARYING if has_dataset else NEAR_FRACTION
    if last.peak_memory_bytes > near * memory_bytes:
        return "the winner at length, since it nearly fills the memory"
    return ""


def simplest_of(best: TrialConfig, steps: Mapping[TrialConfig, Estimate]) -> TrialConfig:
    """The simplest configuration that cannot be told apart from ``best`` on the same devices.

    Of equally simple ones, one that was measured in full: `planner.plans.choose_config` takes it too.
    """
    if best not in steps:
        return best
    tied = [
        config
        for config, step in steps.items()
        if (config.gpu, config.gpu_count, config.node_count) == (best.gpu, best.gpu_count, best.node_count)
        and is_tied_here(step, steps[best])
    ]
    return min(tied, key=lambda one: preference(one, steps[one]))
