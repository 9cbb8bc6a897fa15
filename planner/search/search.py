"""Optuna behind ask() and tell(): the study is a normal one, the sampler proposes by the analytic model.

Everything the sampler knows it reads back from the study's raw measurements, so a resumed sweep goes on
exactly where it stopped and no configuration is measured twice. GPU type, workers, micro batch size,
precision, parallelism, checkpointing and compilation are the dimensions; accumulation follows from the
target's global batch size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from catalogs.gpus import Gpu
from planner.bill.price_run import Pricer, Terms
from planner.choice.guard import next_guard, reference_of
from planner.choice.rule_out import rule_out, technique_of
from planner.estimate import Estimate, Estimator, fit
from planner.estimate.loading import loading_variants
from planner.estimate.lognormal import log_spread, median_of
from planner.search.acquisition import OPENING_TRIAL_COUNT, Candidate, Choice, choose, fit_probability
from planner.search.approach import SAFE_PROBABILITY, approach
from planner.search.flights import Flights
from planner.search.limits import Run, weighed
from planner.search.market import Market, expected_trial_s
from planner.search.second_look import is_to_be_confirmed, is_to_be_repeated, simplest_of
from planner.search.stopping import why_none
from planner.study.store import Study
from trials.devices import DeviceGroup
from trials.extras import Extras
from trials.profile import WorkloadProfile
from trials.trial import (
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Parallelism,
    Precision,
    Purpose,
    TrialConfig,
)
from trials.warm.extras_due import shows_noise

REPEATS_OF_LOST_TRIAL = 1
CONFIRMATION_FRACTION = 0.05  # of the target run, which a confirmation may cost
NONE_IN_FLIGHT = Flights()

_Wanted = tuple[Choice, Candidate, Purpose]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What the sweep may still take; None without a limit."""

    usd: float | None = None
    trial_count: int | None = None
    s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A trial that the study has been asked for."""

    optuna_trial: optuna.Trial
    choice: Choice
    candidate: Candidate
    purpose: Purpose


class Search:
    """Which trial next, until none pays for itself."""

    def __init__(
        self,
        study: Study,
        configs: Sequence[TrialConfig],
        market: Market,
        profile: WorkloadProfile,
        extras: Extras | None = None,  # that every trial may measure
    ) -> None:
        self._study = study
        self._configs = configs
        self._market = market
        self._profile = profile
        self._extras = extras or Extras()
        self._trials = study.trials()
        self._known_count = len(self._trials)  # before this sweep
        self._estimator: Estimator | None = None
        self._pricer: Pricer | None = None

    @property
    def estimator(self) -> Estimator:
        """Fitted to everything measured so far."""
        if self._estimator is None:
            outcomes = self._outcomes
            self._estimator = fit(
                [one for one in outcomes if isinstance(one, Measurement)],
                gpus=self._market.gpus,
                profile=self._profile,
                failures=[one for one in outcomes if isinstance(one, Failure)],
                confidence=self._market.confidence,
                witnesses=self._market.witnesses,
            )
        return self._estimator

    @property
    def pricer(self) -> Pricer:
        """Of target runs, with what trials measured besides steps; the sweep's own cost is left out."""
        if self._pricer is None:
            terms = Terms(
                target=self._market.target,
                profile=self._profile,
                stated=self._market.stated,
                sweep_usd=None,
                measurements=tuple(one for one in self._outcomes if isinstance(one, Measurement)),
                confidence=self._market.confidence,
            )
            self._pricer = Pricer(terms, has_luck=False)
        return self._pricer

    @property
    def market(self) -> Market:
        """What it prices with now."""
        return self._market

    def move_to(
        self,
        configs: Sequence[TrialConfig],
        groups: tuple[DeviceGroup, ...],
        usd_per_hour: Mapping[str, float | None],
    ) -> None:
        """Go on with other devices: some came, some left."""
        self._configs = configs
        # what left is still billed for the trial that it ended
        prices = {**self._market.usd_per_hour, **usd_per_hour}
        self._market = replace(self._market, groups=groups, usd_per_hour=prices)

    def settle(self) -> int:
        """End the trials that a killed sweep left running; the number that had no outcome yet."""
        leftovers = self._study.leftovers()
        for number, outcome in leftovers:
            self._study.close(number, outcome, self._value(outcome))
        self._trials = self._study.trials()
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
        wanted = self._repeat(left.usd, flights, waiting) or self._chosen(left.usd, flights, waiting)
        guard = self._guard(left.usd) if wanted is None or left != Left() else None
        if guard is not None and (wanted is None or self._is_last_chance(guard, wanted, left)):
            wanted = None if flights.configs else guard
        elif wanted is None and not flights.configs:
            wanted = self._noise(left.usd) or self._confirmation(left.usd)
        if wanted is None:
            return None
        choice, candidate, purpose = wanted
        optuna_trial = self._study.ask(params_of(choice.config), distributions(self._market.gpus))
        self._study.start(optuna_trial, choice.config)
        return Proposal(optuna_trial=optuna_trial, choice=choice, candidate=candidate, purpose=purpose)

    def worker_count_max(self, gpu: str) -> int:
        """The most workers that a trial on this GPU type may ask for."""
        return max((one.gpu_count for one in self._configs if one.gpu == gpu), default=0)

    def why_no_more(self) -> str:
        """Why ask() gave None, in words."""
        confidence, (_, best) = self._market.confidence, self._best()
        left, bar = weighed(self.candidates(), best, confidence)
        why = why_none(left, bar, confidence, is_opening=len(self._trials) == 1)
        if best is None or best.keeps_limits(confidence):
            return why
        return f"no trial so far keeps the budget and the deadline; {why}"

    def best(self) -> tuple[TrialConfig | None, Estimate | None]:
        """The measured configuration with the cheapest target run within the limits, and that cost.

        Where none is within them, the one that is nearest to it.
        """
        config, run = self._best()
        return config, None if run is None else run.cost

    def _best(self) -> tuple[TrialConfig, Run] | tuple[None, None]:
        runs = [(one, run) for one in self.admitted() if (run := self.run(one)) is not None]
        if not runs:
            return None, None
        return min(runs, key=lambda one: one[1].order(self._market.confidence))

    def drop(self, proposal: Proposal) -> None:
        """Nothing was tried: the configuration stays untried."""
        self._study.close(proposal.optuna_trial.number, None, None)

    def tell(self, proposal: Proposal, outcome: Outcome, cost_usd: float | None) -> Outcome:
        """Save the outcome, then let the study have its value; the outcome with its purpose."""
        outcome = replace(outcome, purpose=proposal.purpose)
        self._study.save(proposal.optuna_trial, outcome, cost_usd, _violation(outcome, proposal.candidate))
        self._trials = self._study.trials()
        self._estimator = self._pricer = None
        self._study.close(proposal.optuna_trial.number, outcome, self._value(outcome))
        return outcome

    def candidates(self, but: Collection[TrialConfig] = ()) -> tuple[Candidate, ...]:
        """What has not been tried and no failure speaks against, with what is believed of it."""
        outcomes = self._outcomes
        tried = Counter(one.config for one in outcomes)
        lost = Counter(one.config for one in outcomes if _is_by_chance(one))
        ruled_out = rule_out(outcomes)  # on CPU too: here the host is this one
        elsewhere = self._study.running_elsewhere()
        found = [
            self._candidate(one)
            for one in (*self._configs, *loading_variants(outcomes, self._profile))
            if one not in but
            and tried[one] == min(lost[one], REPEATS_OF_LOST_TRIAL)
            and one not in elsewhere
            and not ruled_out.has(one)
        ]
        return tuple(one for one in found if one is not None)

    def trial_cost_usd(self, config: TrialConfig, held_s: float) -> float | None:
        """Dollars for ``held_s`` of all that a group with room for ``config`` holds; None without a price."""
        count = self._market.held_count(config, self.worker_count_max(config.gpu))
        return self._market.held_usd(config.gpu, held_s, count)

    def expected_trial_s(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> float:
        """Wall time that a trial of ``config`` will hold its devices."""
        seen = [one for one in self._outcomes if isinstance(one, Measurement)]
        step = self.estimator.step_time_s(config, self._market.hardware_at_hand(config))
        # by the median: a trial that is far slower than believed is ended by its limit
        spread = 0.0 if step is None else log_spread(step, self._market.confidence)
        step_s = None if step is None else median_of(step.expected, spread)
        return expected_trial_s(config, purpose, step_s, seen)

    def run_cost(self, config: TrialConfig) -> Estimate | None:
        """Of the target run."""
        run = self.run(config)
        return None if run is None else run.cost

    def run(self, config: TrialConfig) -> Run | None:
        """The target run; see `Market.run`."""
        return self._market.run(config, self.estimator, self.pricer)

    @property
    def _outcomes(self) -> list[Outcome]:
        return [one.outcome for one in self._trials]

    def admitted(self) -> list[TrialConfig]:
        """What was measured, trains the target's batch and did not fail afterwards, each once."""
        ruled_out = rule_out(self._outcomes)
        size = self._market.target.global_batch_size
        measured = (one.config for one in self._outcomes if isinstance(one, Measurement))
        return [
            one for one in dict.fromkeys(measured) if one.global_batch_size == size and not ruled_out.has(one)
        ]

    def _repeat(self, usd_left: float | None, flights: Flights, waiting: set[str]) -> _Wanted | None:
        """A trial that was disturbed, once more, if it may be the best."""
        _, best_cost = self.best()
        for config in self.admitted():
            cost = self.run_cost(config)
            if config in flights.configs or cost is None or best_cost is None or cost.low > best_cost.high:
                continue
            why = is_to_be_repeated(config, self._outcomes)
            if why and not flights.have_room_for(config):
                waiting.add(config.gpu)
            elif why:
                return self._wanted(config, why, Purpose.SEARCH, usd_left)
        return None

    def _chosen(self, usd_left: float | None, flights: Flights, waiting: set[str]) -> _Wanted | None:
        """The trial that is expected to save most, approached from below where it may not fit."""
        tried = list(dict.fromkeys(one.config for one in self._outcomes))
        if flights.configs and len(tried) < OPENING_TRIAL_COUNT:
            return None  # what is worth trying beside them is predicted from these
        untried = [
            one
            for one in self.candidates(flights.configs)
            if _is_affordable(one, usd_left)
            and one.config.gpu not in waiting
            and not flights.tell_of(one.config)
        ]
        _, best = self._best()
        candidates, bar = weighed(untried, best, self._market.confidence)
        while True:
            choice = choose(candidates, bar, self._market.confidence, tried)
            if choice is None:
                return None
            config = choice.config
            wanted = next(one for one in candidates if one.config == config)
            step = approach(wanted, candidates, self._outcomes, self._market.confidence)
            if step is None:
                candidates = [one for one in candidates if not _is_at_least(one.config, config)]
            elif not flights.have_room_for(step.config):
                candidates = [one for one in candidates if one.config.gpu != config.gpu]
            elif step.config == config:
                return choice, wanted, Purpose.SEARCH
            else:
                why = f"on the way to micro batch {config.micro_batch_size}, which may not fit"
                return self._wanted(step.config, why, step.purpose, usd_left)

    def _noise(self, usd_left: float | None) -> _Wanted | None:
        """A trial for the gradient noise, where the study lacks it and no trial of this sweep could tell."""
        measured = [one for one in self._outcomes if isinstance(one, Measurement)]
        if not self._extras.is_noise_measured or any(self._has_noise(one) for one in measured):
            return None
        if any(shows_noise(one.outcome.config) for one in self._trials[self._known_count :]):
            return None
        able = [one for one in self.admitted() if shows_noise(one)]
        costs = [(cost.expected, index) for index, one in enumerate(able) if (cost := self.run_cost(one))]
        if not costs:
            return None
        config = able[min(costs)[1]]
        return self._wanted(config, "for the gradient noise scale", Purpose.SEARCH, usd_left)

    def _has_noise(self, one: Measurement) -> bool:
        return one.noise is not None and one.noise.checkpoint == self._extras.noise_checkpoint

    def _is_last_chance(self, guard: _Wanted, wanted: _Wanted, left: Left) -> bool:
        """Whether what the guard still takes would find no room after ``wanted``, and finds it now."""
        count = 2 if reference_of(guard[0].config) == guard[0].config else 1
        longest_s = max(one.trial_s for one in self._outcomes)  # steps that waver take longer than expected
        (guard_s, guard_usd), (wanted_s, wanted_usd) = (
            (held_s, self.trial_cost_usd(config, held_s) or 0.0)
            for choice, _, purpose in (guard, wanted)
            for config in [choice.config]
            for held_s in [max(longest_s, self.expected_trial_s(config, purpose))]
        )
        rooms = (
            (left.trial_count, count, count + 1),
            (left.s, (count - 1) * guard_s, count * guard_s + wanted_s),  # the last may end after the limit
            (left.usd, count * guard_usd, count * guard_usd + wanted_usd),
        )
        known = [(has, needed, both) for has, needed, both in rooms if has is not None]
        return all(has >= needed for has, needed, _ in known) and any(has < both for has, _, both in known)

    def _guard(self, usd_left: float | None) -> _Wanted | None:
        """The winner's loss curve or its reference's, where nobody has compared them."""
        best, best_cost = self.best()
        config = None if best is None else next_guard(best, self._outcomes, self._is_safe)
        if config is None or best_cost is None:
            return None
        wanted = self._wanted(config, "does it train as fp32 does", Purpose.GUARD, usd_left)
        if wanted is None or (wanted[0].trial_cost_usd or 0.0) > CONFIRMATION_FRACTION * best_cost.expected:
            return None
        return wanted

    def _is_safe(self, config: TrialConfig) -> bool:
        candidate = self._candidate(config)
        return (
            candidate is not None
            and fit_probability(candidate, self._market.confidence) >= SAFE_PROBABILITY
            and not rule_out(self._outcomes).has(config)
        )

    def _confirmation(self, usd_left: float | None) -> _Wanted | None:
        """The winner in full, where its measurement leaves something open."""
        best, best_cost = self.best()
        if best is None or best_cost is None:
            return None
        steps = {
            one: step
            for one in self.admitted()
            if (step := self.estimator.step_time_s(one, self._market.hardware_at_hand(one))) is not None
        }
        winner = simplest_of(best, steps)
        group = self._market.group(winner)
        if group is None:
            return None
        why = is_to_be_confirmed(
            winner,
            self._outcomes,
            self._market.memory_bytes(group, winner),
            has_dataset=self._profile.dataset_size is not None,
        )
        wanted = self._wanted(winner, why, Purpose.CONFIRM, usd_left) if why else None
        if wanted is None or (wanted[0].trial_cost_usd or 0.0) > CONFIRMATION_FRACTION * best_cost.expected:
            return None
        return wanted

    def _wanted(
        self, config: TrialConfig, why: str, purpose: Purpose, usd_left: float | None
    ) -> _Wanted | None:
        """A trial for a reason of its own; None where it cannot be paid for or its devices left."""
        candidate = self._candidate(config, purpose)
        if candidate is None or not _is_affordable(candidate, usd_left):
            return None
        choice = Choice(
            config=config, expected_saving=None, trial_cost_usd=candidate.trial_cost_usd, reason=why
        )
        return choice, candidate, purpose

    def _value(self, outcome: Outcome | None) -> float | None:
        if not isinstance(outcome, Measurement) or outcome.purpose is Purpose.PROBE:
            return None
        cost = self.run_cost(outcome.config)
        return None if cost is None else cost.expected

    def _candidate(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Candidate | None:
        cost_usd = self.trial_cost_usd(config, self.expected_trial_s(config, purpose))
        return self._market.candidate(config, self.estimator, self.run(config), cost_usd)


def distributions(gpus: Mapping[str, Gpu]) -> dict[str, BaseDistribution]:
    """The study's dimensions: all catalog names, so that nodes of other types may join later."""
    return {
        "gpu": CategoricalDistribution(sorted(gpus)),
        "gpu_count": IntDistribution(1, 4096, log=True),
        "node_count": IntDistribution(1, 512, log=True),
        "micro_batch_size": IntDistribution(1, 1 << 20, log=True),
        "precision": CategoricalDistribution([one.value for one in Precision]),
        "parallelism": CategoricalDistribution([one.value for one in Parallelism]),
        "is_checkpointed": CategoricalDistribution([False, True]),
        "is_compiled": CategoricalDistribution([False, True]),
        "loader_worker_count": IntDistribution(0, 64),  # 0: as the model file has it
        "loader_prefetch_count": IntDistribution(0, 64),  # 0: as torch has it
        "is_pinned": CategoricalDistribution([False, True]),  # True: for CUDA
    }


def params_of(config: TrialConfig) -> dict[str, Any]:
    """A configuration in the study's dimensions."""
    return {
        "gpu": config.gpu,
        "gpu_count": config.gpu_count,
        "node_count": config.node_count,
        "micro_batch_size": config.micro_batch_size,
        "precision": config.precision.value,
        "parallelism": config.parallelism.value,
        "is_checkpointed": config.is_checkpointed,
        "is_compiled": config.is_compiled,
        "loader_worker_count": config.loader_worker_count or 0,
        "loader_prefetch_count": config.loader_prefetch_count or 0,
        "is_pinned": config.is_pinned is not False,
    }


def _is_affordable(candidate: Candidate, usd_left: float | None) -> bool:
    return usd_left is None or candidate.trial_cost_usd is None or candidate.trial_cost_usd <= usd_left


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


def _is_by_chance(outcome: Outcome) -> bool:
    """A lost worker says nothing about the configuration."""
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.WORKER_LOST
