"""What a rule decides by: what is known, what is running, and what the sweep may still take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from planner.estimate.setting import technique_of
from planner.search.acquisition import Candidate, expected_best
from planner.search.limits import weighed
from planner.search.proposal import UNLIMITED, Allowance, Proposal
from planner.search.running import RunningTrials
from planner.search.state import SearchState
from trials.api import Extras, Purpose, TrialConfig


@dataclass(slots=True, kw_only=True)
class Untried:
    """What could begin now; what turns out not to fit or to have no room is struck out on the way."""

    candidates: Sequence[Candidate]
    best_cost: float | None  # that savings are counted from; None where nothing was measured

    def strike_larger(self, config: TrialConfig) -> None:
        """Leave out the configuration and the same at every larger micro batch size."""
        technique, size = technique_of(config), config.micro_batch_size
        self.candidates = [
            one
            for one in self.candidates
            if technique_of(one.config) != technique or one.config.micro_batch_size < size
        ]

    def strike_type(self, gpu: str) -> None:
        """Leave out a type of device."""
        self.candidates = [one for one in self.candidates if one.config.gpu != gpu]


@dataclass(kw_only=True)
class Situation:
    """One question for the next trial, as the rules see it one after the other."""

    state: SearchState
    running: RunningTrials = field(default_factory=RunningTrials)
    allowance: Allowance = UNLIMITED
    extras: Extras = field(default_factory=Extras)  # what trials may measure besides their steps
    earlier_count: int = 0  # trials of the study before this sweep
    reserved: set[str] = field(default_factory=set)  # types of device that a repeat waits for

    @property
    def tried(self) -> list[TrialConfig]:
        """Every configuration that had a trial, in order."""
        return list(dict.fromkeys(one.config for one in self.state.outcomes))

    @cached_property
    def untried(self) -> Untried:
        """What may begin beside the running trials; savings are counted from what these will leave."""
        free = [
            one
            for one in self.state.candidates(self.running.configs)
            if self.allowance.pays_for(one)
            and one.config.gpu not in self.reserved
            and not self.running.tell_of(one.config)
        ]
        confidence, (_, best) = self.state.market.confidence, self.state.best_run()
        running = self.state.running(self.running.configs)
        both, bar = weighed((*free, *running), best, confidence)
        if bar is not None:
            bar = expected_best(both[len(free) :], bar, confidence)
        return Untried(candidates=both[: len(free)], best_cost=bar)

    def proposal(
        self, config: TrialConfig, reason: str, purpose: Purpose = Purpose.SEARCH
    ) -> Proposal | None:
        """A trial of ``config``; None where it cannot be paid for or its devices left."""
        candidate = self.state.candidate(config, purpose)
        if candidate is None or not self.allowance.pays_for(candidate):
            return None
        return Proposal(candidate=candidate, reason=reason, purpose=purpose)
