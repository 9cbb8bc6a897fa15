"""Optuna behind ask() and tell(): the study is a normal one, the sampler proposes by the analytic model.

Everything the sampler knows it reads back from the study's raw measurements, so a resumed sweep goes on
exactly where it stopped and no configuration is measured twice. GPU type, workers, micro batch size,
precision, parallelism, checkpointing and compilation are the dimensions; accumulation follows from the
target's global batch size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import optuna

from planner.search.acquisition import Candidate
from planner.search.limits import weighed
from planner.search.params import distributions, params_of
from planner.search.proposal import UNLIMITED, Allowance, Proposal
from planner.search.rules import next_proposal
from planner.search.running import RunningTrials
from planner.search.situation import Situation
from planner.search.state import SearchState
from planner.search.stopping import why_no_time, why_none
from planner.study.store import Study
from trials.api import Extras, FailureKind, Measurement, Outcome

NONE_RUNNING = RunningTrials()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTrial:
    """A trial that the study has been asked for."""

    optuna_trial: optuna.Trial
    proposal: Proposal


class Search:
    """Which trial next, until none pays for itself."""

    def __init__(self, state: SearchState, study: Study, extras: Extras | None = None) -> None:
        """``study`` is what ``state`` reads; ``extras``: what every trial may measure besides its steps."""
        self.state = state
        self._study = study
        self._extras = extras or Extras()
        self._earlier_count = len(state.trials)

    def recover_orphans(self) -> int:
        """End the trials that a killed sweep left running; the number that had no outcome yet."""
        orphans = self._study.leftovers()
        for number, outcome in orphans:
            self._study.close(number, outcome, self.state.value(outcome))
        self.state.refresh()
        return sum(outcome is None for _, outcome in orphans)

    def ask(
        self, allowance: Allowance = UNLIMITED, running: RunningTrials = NONE_RUNNING
    ) -> AskedTrial | None:
        """The next trial, or None when none that ``allowance`` can pay for is worth its price.

        Args:
            allowance: what the sweep may still take.
            running: trials that have begun. What is worth most but has no room beside them waits for it, and
                nothing else is begun on its type of device meanwhile.
        """
        situation = Situation(
            state=self.state,
            running=running,
            allowance=allowance,
            extras=self._extras,
            earlier_count=self._earlier_count,
        )
        proposal = next_proposal(situation)
        if proposal is None:
            return None
        config = proposal.config
        optuna_trial = self._study.ask(params_of(config), distributions(self.state.market.gpus))
        self._study.start(optuna_trial, config)
        return AskedTrial(optuna_trial=optuna_trial, proposal=proposal)

    def why_no_more(self, allowance: Allowance = UNLIMITED) -> str:
        """Why ask() gave None with ``allowance``, in words."""
        confidence, (_, best) = self.state.market.confidence, self.state.best_run()
        left, bar = weighed(self.state.candidates(), best, confidence)
        if left and not any(allowance.has_time_for(candidate) for candidate in left):
            return why_no_time(min(candidate.trial_s for candidate in left), allowance.s or 0.0)
        why = why_none(left, bar, confidence, is_opening=len(self.state.trials) == 1)
        if best is None or best.keeps_limits(confidence):
            return why
        return f"no trial so far keeps the budget and the deadline; {why}"

    def drop(self, asked: AskedTrial) -> None:
        """Nothing was tried: the configuration stays untried."""
        self._study.close(asked.optuna_trial.number, None, None)

    def tell(self, asked: AskedTrial, outcome: Outcome, cost_usd: float | None) -> Outcome:
        """Save the outcome, then let the study have its value; the outcome with its purpose."""
        outcome = replace(outcome, purpose=asked.proposal.purpose)
        violation = _violation(outcome, asked.proposal.candidate)
        self._study.save(asked.optuna_trial, outcome, cost_usd, violation)
        self.state.refresh()
        self._study.close(asked.optuna_trial.number, outcome, self.state.value(outcome))
        return outcome


def _violation(outcome: Outcome, candidate: Candidate) -> float | None:
    """Memory needed over memory there, minus 1; an out-of-memory failure says only that it is above 0."""
    if isinstance(outcome, Measurement):
        return outcome.peak_memory_bytes / candidate.memory_bytes - 1
    if outcome.kind is not FailureKind.OUT_OF_MEMORY:
        return None
    believed = candidate.memory.expected / candidate.memory_bytes - 1 if candidate.memory else 0.0
    return max(believed, 0.01)
