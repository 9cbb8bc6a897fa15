"""How to try a configuration that may not fit: from below, by memory probes, so that nothing crashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.estimate.memory.boundary import (
    PROBES_MAX,
    least_base_bytes,
    next_probe,
    passes_peak_bytes,
    reach,
)
from planner.estimate.setting import technique_of
from planner.search.acquisition import Candidate, fit_probability
from planner.search.proposal import Proposal
from planner.search.situation import Situation, Untried
from trials.api import Failure, FailureKind, Measurement, Outcome, Purpose, TrialConfig

SAFE_PROBABILITY = 0.98  # of fitting, from which a configuration is tried without ado


@dataclass(frozen=True, slots=True, kw_only=True)
class Approach:
    """The trial that comes next on the way to a configuration: itself, a smaller one, or a probe."""

    config: TrialConfig
    purpose: Purpose


def reached(situation: Situation, pick: Callable[[Untried], Proposal | None]) -> Proposal | None:
    """What ``pick`` wants most of all that can begin now, or the trial that comes first on the way to it."""
    state, running, untried = situation.state, situation.running, situation.untried
    while (wanted := pick(untried)) is not None:
        config = wanted.config
        step = approach(wanted.candidate, untried.candidates, state.outcomes, state.market.confidence)
        if step is None:
            untried.strike_larger(config)
        elif not running.have_room_for(step.config):
            untried.strike_type(config.gpu)
        elif step.config == config:
            return wanted
        else:
            why = f"on the way to micro batch {config.micro_batch_size}, which may not fit"
            return situation.proposal(step.config, why, step.purpose)
    return None


def approach(
    wanted: Candidate, candidates: Sequence[Candidate], outcomes: Sequence[Outcome], confidence: float
) -> Approach | None:
    """How to go about trying ``wanted``; None when it does not fit, as far as four trials can tell.

    Args:
        wanted: what would be tried if memory were no matter.
        candidates: everything untried, ``wanted`` among it.
        outcomes: of all trials so far.
        confidence: of the candidates' intervals.
    """
    if fit_probability(wanted, confidence) >= SAFE_PROBABILITY:
        return _search(wanted.config)
    config, size = wanted.config, wanted.config.micro_batch_size
    technique = technique_of(config)
    smaller = [
        one
        for one in candidates
        if technique_of(one.config) == technique and one.config.micro_batch_size < size
    ]
    tried = [one for one in outcomes if technique_of(one.config) == technique and _tells_of(one, config)]
    fitted = [one for one in tried if isinstance(one, Measurement)]
    peaks = {one.config.micro_batch_size: passes_peak_bytes(one) for one in fitted}
    if not peaks:
        return _search(_least_risk(wanted, smaller, confidence).config)
    overflowing = min(
        (one.config.micro_batch_size for one in tried if isinstance(one, Failure)), default=None
    )
    known = reach(peaks.items(), wanted.memory_bytes, size, overflowing, least_base_bytes(fitted))
    if known.safe >= size:
        return _search(config)
    probe = next_probe(known, peaks, overflowing)
    if known.expected < size or probe is None or len(tried) >= PROBES_MAX:
        return None
    if len(peaks) == 1:  # what counts for the search as well tells as much
        useful = [one.config for one in smaller if max(peaks) < one.config.micro_batch_size <= probe]
        best = max(useful, key=lambda one: one.micro_batch_size, default=None)
        if best is not None and 2 * best.micro_batch_size >= probe:
            return _search(best)
    # gradients are kept beside the activations from the second micro batch on
    accumulation = min(2, config.accumulation)
    return Approach(
        config=replace(config, micro_batch_size=probe, accumulation=accumulation), purpose=Purpose.PROBE
    )


def _search(config: TrialConfig) -> Approach:
    return Approach(config=config, purpose=Purpose.SEARCH)


def _tells_of(outcome: Outcome, config: TrialConfig) -> bool:
    """Whether the trial's memory is a point of the configuration's line, or at least not below it."""
    if isinstance(outcome, Failure) and outcome.kind is not FailureKind.OUT_OF_MEMORY:
        return False
    return outcome.config.accumulation > 1 or config.accumulation == 1


def _least_risk(wanted: Candidate, smaller: Sequence[Candidate], confidence: float) -> Candidate:
    """The largest that is safe, else the smallest."""
    safe = [one for one in smaller if fit_probability(one, confidence) >= SAFE_PROBABILITY]
    if safe:
        return max(safe, key=lambda one: one.config.micro_batch_size)
    return min([wanted, *smaller], key=lambda one: one.config.micro_batch_size)
