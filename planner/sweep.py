"""The story of a sweep: ask which trial is worth its price, run it, save it, tell the study, repeat.

No printing and no parsing here: what happens is handed to ``watch`` as values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from planner.acquisition import Choice
from planner.errors import PlannerError
from planner.estimate import Estimate
from planner.saved import spent_on
from planner.search import Search
from planner.store import Study
from trials.trial import Failure, FailureKind, Measurement, Outcome, TrialConfig

RunTrial = Callable[[TrialConfig], Outcome]
SWEEP_BUDGET_FRACTION = 0.05  # of the budget, where --sweep-budget does not say
EXPECTED_TRIAL_COUNT = 12  # what a search of one GPU type usually takes, for the announcement


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a sweep ends even if another trial would pay. ``usd`` counts all trials of the study."""

    max_trials: int
    max_s: float
    max_usd: float | None  # None where nothing was said and there is no budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the sweep will take, before it starts."""

    trial_count: int
    wall_s: float
    cost_usd: float | None  # None where the devices have no price


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A trial is about to run."""

    number: int  # within this sweep, from 1
    choice: Choice
    expected_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial has ended and is saved."""

    number: int
    outcome: Outcome
    run_cost: Estimate | None  # of the target run with this configuration
    best: TrialConfig | None
    best_cost: Estimate | None
    spent_usd: float | None  # by all trials of the study
    elapsed_s: float


Event = TrialStarted | TrialEnded
Watch = Callable[[Event], None]


@dataclass(slots=True)
class Stop:
    """Set by Ctrl-C: the sweep ends after the trial in flight."""

    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One run over one study."""

    search: Search
    study: Study
    limits: Limits
    watch: Watch
    stop: Stop = field(default_factory=Stop)
    clock: Callable[[], float] = time.monotonic

    def run(self, run_trial: RunTrial) -> str:
        """Try until nothing pays, a limit is reached or the user stops it. Returns the reason, in words."""
        started_s = self.clock()
        number = 0
        while (reason := self._reached(number, self.clock() - started_s)) is None:
            proposal = self.search.ask(self._usd_left())
            if proposal is None:
                reason = self.search.why_no_more()
                break
            number += 1
            config = proposal.choice.config
            self.watch(
                TrialStarted(
                    number=number, choice=proposal.choice, expected_s=self.search.expected_trial_s(config)
                )
            )
            begun_s = self.clock()
            outcome = run_trial(config)
            if isinstance(outcome, Failure) and outcome.kind is FailureKind.BUSY:
                self.search.drop(proposal)
                raise PlannerError(f"{outcome.reason}; sweep again later, or with a longer --wait")
            self.search.tell(proposal, outcome, max(outcome.trial_s, self.clock() - begun_s))
            self.watch(self._ended(number, outcome, self.clock() - started_s))
        self.study.remember_end(reason)
        return reason

    def expected(self) -> Expected:
        """Trials, minutes and dollars that this sweep will probably take, limits included."""
        candidates = self.search.candidates()
        trial_count = min(self.limits.max_trials, EXPECTED_TRIAL_COUNT, len(candidates))
        times_s = sorted(self.search.expected_trial_s(one.config) for one in candidates)
        typical_s = times_s[len(times_s) // 2] if times_s else 0.0
        wall_s = min(trial_count * typical_s, self.limits.max_s)
        costs = [self.search.trial_cost_usd(one.config, typical_s) for one in candidates]
        known = sorted(one for one in costs if one is not None)
        cost_usd = known[len(known) // 2] * trial_count if known else None
        if cost_usd is not None and self.limits.max_usd is not None:
            cost_usd = min(cost_usd, self.limits.max_usd)
        return Expected(trial_count=trial_count, wall_s=wall_s, cost_usd=cost_usd)

    def _reached(self, trial_count: int, elapsed_s: float) -> str | None:
        if self.stop.is_asked:
            return "interrupted"
        if trial_count >= self.limits.max_trials:
            return f"--max-trials {self.limits.max_trials} reached"
        if elapsed_s >= self.limits.max_s:
            return f"--max-minutes {self.limits.max_s / 60:g} reached"
        left_usd = self._usd_left()
        if left_usd is not None and left_usd <= 0:
            return f"the sweep's own budget of ${self.limits.max_usd:.2f} is spent"
        return None

    def _usd_left(self) -> float | None:
        if self.limits.max_usd is None:
            return None
        return self.limits.max_usd - (self.spent_usd() or 0.0)

    def spent_usd(self) -> float | None:
        """By all trials of the study; None where the devices have no price."""
        return spent_on(self.study.trials())

    def _ended(self, number: int, outcome: Outcome, elapsed_s: float) -> TrialEnded:
        best, best_cost = self.search.best()
        return TrialEnded(
            number=number,
            outcome=outcome,
            run_cost=self.search.run_cost(outcome.config) if isinstance(outcome, Measurement) else None,
            best=best,
            best_cost=best_cost,
            spent_usd=self.spent_usd(),
            elapsed_s=elapsed_s,
        )
