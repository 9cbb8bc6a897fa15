"""The first two trials: the plainest configuration of the GPU type cheapest to try, at two micro batches.

Time and memory are lines in the micro batch size, and two points are a line: all that is predicted starts
from them. Other GPU types need no opening: they are predicted from this one, with an interval that says
how badly, and are tried when that is worth the money.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from planner.modes.chosen import switches
from planner.modes.precision import REFERENCE
from planner.search.acquisition import Candidate, worth_of_searching
from planner.search.proposal import Proposal
from planner.search.rules.probe import reached
from planner.search.rules.rule import Rule
from planner.search.situation import Situation, Untried
from trials.api import TrialConfig

FIRST_MICRO_BATCH_SIZE = 8  # small enough to fit, large enough not to time the launch of kernels alone
TRIAL_COUNT = 2  # two points are a line
SECOND_MICRO_BATCH_FACTOR = 4  # far enough from the first for a slope, near enough to fit


def propose(situation: Situation) -> Proposal | None:
    """The next of the two; none where searching on could not save the price of a trial."""
    tried = situation.tried
    if len(tried) >= TRIAL_COUNT or situation.running.configs:
        return None
    return reached(situation, lambda untried: pick(untried, tried))


def pick(untried: Untried, tried: Sequence[TrialConfig]) -> Proposal | None:
    """The next of the opening where it is worth its price."""
    due = next_of_opening(untried.candidates, tried)
    if due is None or untried.best_cost is None:
        return due
    worth = worth_of_searching(untried.candidates, untried.best_cost)
    return due if worth is None or worth.pays else None


def next_of_opening(candidates: Sequence[Candidate], tried: Sequence[TrialConfig]) -> Proposal | None:
    """What the opening has still to try; None where it is complete, or nothing is left for it."""
    if not tried and candidates:
        cheapest = min(candidates, key=lambda one: (one.trial_cost_usd or 0.0, _plainness(one.config)))
        same_type = [one for one in candidates if one.config.gpu == cheapest.config.gpu]
        return Proposal(
            candidate=min(same_type, key=lambda one: _plainness(one.config)),
            reason=f"first trial: the plainest configuration on {cheapest.config.gpu}",
        )
    if len(tried) == 1:
        same = [one for one in candidates if _technique(one.config) == _technique(tried[0])]
        if same:
            size = tried[0].micro_batch_size * SECOND_MICRO_BATCH_FACTOR
            nearest = min(same, key=lambda one: abs(math.log(one.config.micro_batch_size / size)))
            return Proposal(candidate=nearest, reason="second trial: the same at another micro batch size")
    return None


def _plainness(config: TrialConfig) -> tuple[int, tuple[bool, ...], bool, float]:
    """One worker, fp32, nothing switched on, a small micro batch."""
    distance = abs(math.log(config.micro_batch_size / FIRST_MICRO_BATCH_SIZE))
    is_reduced = config.precision != REFERENCE
    return config.gpu_count, switches(config.techniques), is_reduced, distance


def _technique(config: TrialConfig) -> TrialConfig:
    return replace(config, micro_batch_size=1, accumulation=1)


RULE = Rule(propose=propose)
