"""The story of a sweep: ask which trial is worth its price, run it, save it, tell the study, repeat.

Trials run side by side where who runs them has room, on different types of device and on different nodes.
No printing and no parsing here: what happens is handed to ``watch`` as values.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from planner.errors import PlannerError
from planner.estimate import Estimate
from planner.search.meter import Meter
from planner.search.model_error import repeated_model_error
from planner.search.proposal import UNLIMITED, Allowance, Proposal
from planner.search.rules.opening import TRIAL_COUNT as OPENING_TRIAL_COUNT
from planner.search.running import HasRoom, RunningTrials, one_of_each_type
from planner.search.search import AskedTrial, Search
from planner.study.saved import spent_on
from planner.study.store import Study
from trials.api import Failure, FailureKind, Measurement, Outcome, Purpose, TrialConfig

RunTrial = Callable[[TrialConfig, Purpose], Outcome]
SWEEP_BUDGET_FRACTION = 0.05  # of the budget, where --sweep-budget does not say
_LOOK_S = 0.5  # between looks whether the sweep may still wait
GRACE_S = 15.0
"""Beyond --max-minutes, for trials in flight; then they are stopped: the report is there within a minute."""
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
    proposal: Proposal
    expected_s: float
    is_priced: bool  # a saving is in dollars; else in device hours


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial has ended and is saved."""

    number: int
    outcome: Outcome
    run_cost: Estimate | None  # of the target run with this configuration
    best: TrialConfig | None
    best_cost: Estimate | None
    is_priced: bool  # costs of a run are in dollars; else in device hours
    spent_usd: float | None  # by all trials of the study
    elapsed_s: float


Event = TrialStarted | TrialEnded
Watch = Callable[[Event], None]


@dataclass(slots=True)
class Stop:
    """Asks a sweep to end after the trials in flight, or without those that take too long."""

    signal_number: int | None = None  # that asked
    until_s: float = math.inf  # by the sweep's clock: what is in flight then is given up
    clock: Callable[[], float] = time.monotonic

    @property
    def is_asked(self) -> bool:
        """Whether nothing else may begin."""
        return self.signal_number is not None

    @property
    def is_bounded(self) -> bool:
        """Whether trials in flight are given up after a while."""
        return self.until_s < math.inf

    def ask(self, signal_number: int, grace_s: float = math.inf) -> None:
        """End, for that signal; trials in flight have ``grace_s`` left."""
        self.signal_number = signal_number
        self.until_s = self.clock() + grace_s


def in_thread(work: Callable[[], None]) -> None:
    """Start ``work``. A second Ctrl-C must not wait for it, so the thread is a daemon."""
    threading.Thread(target=work, daemon=True, name="trial").start()


@dataclass(slots=True, kw_only=True)
class _Running:
    """A trial that has begun, and then what came of it."""

    number: int
    asked: AskedTrial
    outcome: Outcome | None = None
    error: BaseException | None = None

    @property
    def config(self) -> TrialConfig:
        return self.asked.proposal.config


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One run over one study."""

    search: Search
    study: Study
    limits: Limits
    watch: Watch
    stop: Stop = field(default_factory=Stop)
    clock: Callable[[], float] = time.monotonic
    held: Callable[[], Mapping[str, int]] = dict  # devices that the runner holds, by GPU type
    held_from_s: Mapping[str, float] = field(default_factory=dict)  # of what is held already, by the clock
    has_room: HasRoom = one_of_each_type
    look_around: Callable[[], None] = lambda: None  # before each trial: devices may have come or gone
    start: Callable[[Callable[[], None]], None] = in_thread  # tests run each trial at once
    _running: dict[int, _Running] = field(default_factory=dict)  # by number
    _ended_trials: SimpleQueue[_Running] = field(default_factory=SimpleQueue)

    def run(self, run_trial: RunTrial) -> str:
        """Try until nothing pays, a limit is reached or the user stops it. Returns the reason, in words.

        Raises:
            PlannerError: where devices stay in use by others, or the model file fails twice in the same way.
        """
        started_s = self.clock()
        give_up_s = started_s + self.limits.max_s + GRACE_S
        meter = Meter(held=self.held, clock=self.clock, held_from_s=self.held_from_s)
        number = 0
        is_left = UNLIMITED
        problem: PlannerError | None = None
        while True:
            reason = self._reached(number, self.clock() - started_s) if problem is None else str(problem)
            if reason is None:
                self.look_around()
                allowance = Allowance(
                    usd=self._usd_left(),
                    trial_count=self.limits.max_trials - number,
                    s=self.limits.max_s - (self.clock() - started_s),
                )
                asked = self.search.ask(allowance, self._running_trials())
                is_left = allowance
                if asked is not None:
                    number += 1
                    self._launch(number, asked, run_trial, meter)
                    continue
            if not self._running:
                break
            trial = self._next_ended(give_up_s)
            if trial is None:
                reason = (
                    reason if self.stop.is_asked else f"{self._out_of_time()}; a trial in flight was stopped"
                )
                break
            del self._running[trial.number]
            problem = self._told(trial, meter, self.clock() - started_s) or problem
        reason = reason or self.search.why_no_more(is_left)
        self.study.remember_end(reason)
        if problem is not None:
            raise problem
        return reason

    def _next_ended(self, give_up_s: float) -> _Running | None:
        """What ends next; None once those in flight are given up, at ``give_up_s`` at the latest."""
        while True:
            with contextlib.suppress(Empty):
                return self._ended_trials.get(timeout=_LOOK_S)
            if self.clock() >= min(self.stop.until_s, give_up_s):
                return None

    def _launch(self, number: int, asked: AskedTrial, run_trial: RunTrial, meter: Meter) -> None:
        proposal = asked.proposal
        config, purpose = proposal.config, proposal.purpose
        self.watch(
            TrialStarted(
                number=number,
                proposal=proposal,
                expected_s=self.search.state.expected_trial_s(config, purpose),
                is_priced=self.search.state.market.is_priced,
            )
        )
        meter.begin(number, config.gpu, self.search.state.market.device_count(config))
        trial = _Running(number=number, asked=asked)
        self._running[number] = trial

        def work() -> None:
            try:
                trial.outcome = run_trial(config, purpose)
            except BaseException as error:  # noqa: BLE001  (raised again where the sweep waits for it)
                trial.error = error
            self._ended_trials.put(trial)

        self.start(work)

    def _told(self, trial: _Running, meter: Meter, elapsed_s: float) -> PlannerError | None:
        """Save and tell what came of a trial; what is to be raised once the others have ended.

        Where devices were busy nothing was tried, and that ends the sweep unless others of the type go on.
        """
        if trial.error is not None:
            raise trial.error
        outcome = trial.outcome
        assert outcome is not None
        if isinstance(outcome, Failure) and outcome.kind is FailureKind.BUSY:
            self.search.drop(trial.asked)
            meter.drop(trial.number)
            if any(one.config.gpu == trial.config.gpu for one in self._running.values()):
                return None
            return PlannerError(f"{outcome.reason}; sweep again later, or with a longer --wait")
        cost_usd = self._bill(trial, outcome, meter)
        outcome = self.search.tell(trial.asked, outcome, cost_usd)
        self.watch(self._ended(trial.number, outcome, elapsed_s))
        error = repeated_model_error(self.search.state.outcomes)
        if error is None:
            return None
        return PlannerError(
            f"{error.reason}; two trials in a row ended like this: correct the file and sweep again"
        )

    def _bill(self, trial: _Running, outcome: Outcome, meter: Meter) -> float | None:
        """Dollars of a trial: for its own devices, and for those that were held idle meanwhile."""
        bill = meter.end(trial.number, outcome.trial_s)
        costs = [self.search.state.market.held_usd(gpu, device_s, 1) for gpu, device_s in bill.items()]
        known = [one for one in costs if one is not None]
        return sum(known) if known else None

    def expected(self) -> Expected:
        """Trials, minutes and dollars that this sweep will probably take, limits included."""
        candidates = self.search.state.candidates()
        trial_count = min(self.limits.max_trials, EXPECTED_TRIAL_COUNT, len(candidates))
        times_s = sorted(self.search.state.expected_trial_s(one.config) for one in candidates)
        typical_s = times_s[len(times_s) // 2] if times_s else 0.0
        side_by_side = max((len(one.nodes) for one in self.search.state.market.groups), default=1)
        round_count = min(trial_count, OPENING_TRIAL_COUNT)
        round_count += math.ceil((trial_count - round_count) / side_by_side)
        wall_s = min(round_count * typical_s, self.limits.max_s)
        costs = [self.search.state.trial_cost_usd(one.config, typical_s) for one in candidates]
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
            return self._out_of_time()
        left_usd = self._usd_left()
        if left_usd is not None and left_usd <= 0:
            return f"the sweep's own budget of ${self.limits.max_usd:.2f} is spent"
        return None

    def _out_of_time(self) -> str:
        return f"--max-minutes {self.limits.max_s / 60:g} reached"

    def _running_trials(self) -> RunningTrials:
        running = self._running.values()
        return RunningTrials(
            configs=tuple(one.config for one in running),
            has_room=self.has_room,
            are_last=any(one.asked.proposal.purpose.is_last for one in running),
        )

    def _usd_left(self) -> float | None:
        if self.limits.max_usd is None:
            return None
        promised = [one.asked.proposal.trial_cost_usd or 0.0 for one in self._running.values()]
        return self.limits.max_usd - (self.spent_usd() or 0.0) - sum(promised)

    def spent_usd(self) -> float | None:
        """By all trials of the study; None where the devices have no price."""
        return spent_on(self.study.trials())

    def _ended(self, number: int, outcome: Outcome, elapsed_s: float) -> TrialEnded:
        best, best_cost = self.search.state.best()
        return TrialEnded(
            number=number,
            outcome=outcome,
            run_cost=self.search.state.run_cost(outcome.config) if isinstance(outcome, Measurement) else None,
            best=best,
            best_cost=best_cost,
            is_priced=self.search.state.market.is_priced,
            spent_usd=self.spent_usd(),
            elapsed_s=elapsed_s,
        )
