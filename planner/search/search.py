"""Optuna behind ask() and tell(): the study is a normal one, the sampler proposes by the analytic model.

Everything the sampler knows it reads back from the study's raw measurements, so a resumed sweep goes on
exactly where it stopped and no configuration is measured twice. GPU type, workers, micro batch size,
precision, parallelism, checkpointing and compilation are the dimensions; accumulation follows from the
target's global batch size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import optuna

from planner.estimate.setting import technique_of
from planner.search.acquisition import OPENING_TRIAL_COUNT, Candidate, Choice, choose, expected_best
from planner.search.approach import approach
from planner.search.flights import Flights
from planner.search.follow_up import FollowUps
from planner.search.known import Known
from planner.search.limits import weighed
from planner.search.params import distributions, params_of
from planner.search.stopping import why_none
from planner.search.wanted import Left, Wanted, is_affordable
from trials.api import Extras, FailureKind, Measurement, Outcome, Purpose, TrialConfig

NONE_IN_FLIGHT = Flights()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A trial that the study has been asked for."""

    optuna_trial: optuna.Trial
    choice: Choice
    candidate: Candidate
    purpose: Purpose


class Search:
    """Which trial next, until none pays for itself."""

    def __init__(self, known: Known, extras: Extras | None = None) -> None:
        """``extras``: what every trial may measure besides its steps."""
        self.known = known
        self._study = known.study
        self._follow_ups = FollowUps(known, extras or Extras())

    def settle(self) -> int:
        """End the trials that a killed sweep left running; the number that had no outcome yet."""
        leftovers = self._study.leftovers()
        for number, outcome in leftovers:
            self._study.close(number, outcome, self.known.value(outcome))
        self.known.refresh()
        return sum(outcome is None for _, outcome in leftovers)

    def ask(self, left: Left | None = None, flights: Flights = NONE_IN_FLIGHT) -> Proposal | None:
        """The next trial, or None when no trial that ``left`` can pay for is worth its price.

        The winner's guard comes last, but while there is still room for it: nobody is to be told to train
        with arithmetic that nobody has seen to train because the minutes were up. It and the confirmation
        wait until all results are in, and nothing begins beside them.

        Args:
            left: what the sweep may still take.
            flights: trials under way. What is worth most but has no room beside them waits for it, and
                nothing else is begun on its type of device meanwhile.
        """
        if flights.are_last:
            return None
        left = left or Left()
        waiting: set[str] = set()  # types of device
        wanted = self._follow_ups.repeat(left.usd, flights, waiting) or self._chosen(
            left.usd, flights, waiting
        )
        guard = self._follow_ups.guard(left.usd) if wanted is None or left != Left() else None
        if guard is not None and (wanted is None or self._follow_ups.is_last_chance(guard, wanted, left)):
            wanted = None if flights.configs else guard
        elif wanted is None and not flights.configs:
            wanted = self._follow_ups.noise(left.usd) or self._follow_ups.confirmation(left.usd)
        if wanted is None:
            return None
        choice, candidate, purpose = wanted
        optuna_trial = self._study.ask(params_of(choice.config), distributions(self.known.market.gpus))
        self._study.start(optuna_trial, choice.config)
        return Proposal(optuna_trial=optuna_trial, choice=choice, candidate=candidate, purpose=purpose)

    def why_no_more(self) -> str:
        """Why ask() gave None, in words."""
        confidence, (_, best) = self.known.market.confidence, self.known.best_run()
        left, bar = weighed(self.known.candidates(), best, confidence)
        why = why_none(left, bar, confidence, is_opening=len(self.known.trials) == 1)
        if best is None or best.keeps_limits(confidence):
            return why
        return f"no trial so far keeps the budget and the deadline; {why}"

    def drop(self, proposal: Proposal) -> None:
        """Nothing was tried: the configuration stays untried."""
        self._study.close(proposal.optuna_trial.number, None, None)

    def tell(self, proposal: Proposal, outcome: Outcome, cost_usd: float | None) -> Outcome:
        """Save the outcome, then let the study have its value; the outcome with its purpose."""
        outcome = replace(outcome, purpose=proposal.purpose)
        self._study.save(proposal.optuna_trial, outcome, cost_usd, _violation(outcome, proposal.candidate))
        self.known.refresh()
        self._study.close(proposal.optuna_trial.number, outcome, self.known.value(outcome))
        return outcome

    def _chosen(self, usd_left: float | None, flights: Flights, waiting: set[str]) -> Wanted | None:
        """The trial that is expected to save most, approached from below where it may not fit."""
        tried = list(dict.fromkeys(one.config for one in self.known.outcomes))
        if flights.configs and len(tried) < OPENING_TRIAL_COUNT:
            return None  # what is worth trying beside them is predicted from these
        untried = [
            one
            for one in self.known.candidates(flights.configs)
            if is_affordable(one, usd_left)
            and one.config.gpu not in waiting
            and not flights.tell_of(one.config)
        ]
        confidence = self.known.market.confidence
        candidates, bar = self._weighed_beside(flights, untried)
        while True:
            choice = choose(candidates, bar, confidence, tried)
            if choice is None:
                return None
            config = choice.config
            wanted = next(one for one in candidates if one.config == config)
            step = approach(wanted, candidates, self.known.outcomes, confidence)
            if step is None:
                candidates = [one for one in candidates if not _is_at_least(one.config, config)]
            elif not flights.have_room_for(step.config):
                candidates = [one for one in candidates if one.config.gpu != config.gpu]
            elif step.config == config:
                return choice, wanted, Purpose.SEARCH
            else:
                why = f"on the way to micro batch {config.micro_batch_size}, which may not fit"
                return self._follow_ups.wanted(step.config, why, step.purpose, usd_left)

    def _weighed_beside(
        self, flights: Flights, untried: Sequence[Candidate]
    ) -> tuple[Sequence[Candidate], float | None]:
        """`weighed`, with savings counted from what trials under way are expected to leave."""
        confidence, (_, best) = self.known.market.confidence, self.known.best_run()
        under_way = self.known.under_way(flights.configs)
        both, bar = weighed((*untried, *under_way), best, confidence)
        candidates, flying = both[: len(untried)], both[len(untried) :]
        return candidates, None if bar is None else expected_best(flying, bar, confidence)


def _is_at_least(config: TrialConfig, other: TrialConfig) -> bool:
    """The same technique at the same micro batch or a larger one."""
    return technique_of(config) == technique_of(other) and config.micro_batch_size >= other.micro_batch_size


def _violation(outcome: Outcome, candidate: Candidate) -> float | None:
    """Memory needed over memory there, minus 1; an out-of-memory failure says only that it is above 0."""
    if isinstance(outcome, Measurement):
        return outcome.peak_memory_bytes / candidate.memory_bytes - 1
    if outcome.kind is not FailureKind.OUT_OF_MEMORY:
        return None
    believed = candidate.memory.expected / candidate.memory_bytes - 1 if candidate.memory else 0.0
    return max(believed, 0.01)
