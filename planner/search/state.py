"""What the study says so far: trials, the estimator fitted to them, and what follows for the untried.

Everything is read back from the study's raw measurements, so a resumed sweep goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from planner.cost.bill.price_run import Pricer, Terms
from planner.estimate import Estimate, Estimator, fit
from planner.estimate.interval.lognormal import log_spread, median_of
from planner.estimate.time.loading import loading_variants
from planner.plans.rule_out import given_up_shapes, rule_out, shape_of
from planner.search.acquisition import Candidate
from planner.search.limits import TargetRun
from planner.search.market import Market, expected_trial_s
from planner.study.saved import SavedTrial
from trials.api import (
    DeviceGroup,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Purpose,
    TrialConfig,
    WorkloadProfile,
)

REPEATS_OF_LOST_TRIAL = 1


class TrialSource(Protocol):
    """The study, as far as the search reads it."""

    def trials(self) -> tuple[SavedTrial, ...]:
        """Every finished trial, in order."""

    def running_elsewhere(self) -> frozenset[TrialConfig]:
        """What a sweep on another host is trying now."""


class SearchState:
    """What trials have told of the configurations, and what is believed of those that were not tried."""

    def __init__(
        self, study: TrialSource, configs: Sequence[TrialConfig], market: Market, profile: WorkloadProfile
    ) -> None:
        self.study = study
        self._estimator: Estimator | None = None
        self._pricer: Pricer | None = None
        self.configs = configs
        self.market = market
        self.profile = profile
        self.trials = study.trials()

    def refresh(self) -> None:
        """Read the study again: a trial has ended."""
        self.trials = self.study.trials()
        self._estimator = self._pricer = None

    @property
    def estimator(self) -> Estimator:
        """Fitted to everything measured so far."""
        if self._estimator is None:
            self._estimator = fit(
                self.outcomes,
                gpus=self.market.gpus,
                profile=self.profile,
                confidence=self.market.confidence,
                cross_workload=self.market.cross_workload,
            )
        return self._estimator

    @property
    def pricer(self) -> Pricer:
        """Of target runs, with what trials measured besides steps; the sweep's own cost is left out."""
        if self._pricer is None:
            terms = Terms(
                target=self.market.target,
                profile=self.profile,
                assumptions=self.market.assumptions,
                sweep_usd=None,
                measurements=tuple(one for one in self.outcomes if isinstance(one, Measurement)),
                confidence=self.market.confidence,
            )
            self._pricer = Pricer(terms, has_luck=False)
        return self._pricer

    def move_to(
        self,
        configs: Sequence[TrialConfig],
        groups: tuple[DeviceGroup, ...],
        usd_per_hour: Mapping[str, float | None],
    ) -> None:
        """Go on with other devices: some came, some left."""
        self.configs = configs
        # what left is still billed for the trial that it ended
        prices = {**self.market.usd_per_hour, **usd_per_hour}
        self.market = replace(self.market, groups=groups, usd_per_hour=prices)

    def worker_count_max(self, gpu: str) -> int:
        """The most workers that a trial on this GPU type may ask for."""
        return max((one.gpu_count for one in self.configs if one.gpu == gpu), default=0)

    def best(self) -> tuple[TrialConfig | None, Estimate | None]:
        """The measured configuration with the cheapest target run within the limits, and that cost.

        Where none is within them, the one that is nearest to it.
        """
        config, run = self.best_run()
        return config, None if run is None else run.cost

    def best_run(self) -> tuple[TrialConfig, TargetRun] | tuple[None, None]:
        """The same with the whole run that it was chosen by."""
        runs = [(one, run) for one in self.admitted() if (run := self.run(one)) is not None]
        if not runs:
            return None, None
        return min(runs, key=lambda one: one[1].order(self.market.confidence))

    def candidates(self, but: Collection[TrialConfig] = ()) -> tuple[Candidate, ...]:
        """What has not been tried and no failure speaks against, with what is believed of it."""
        outcomes = self.outcomes
        tried = Counter(one.config for one in outcomes)
        lost = Counter(one.config for one in outcomes if _is_by_chance(one))
        ruled_out = rule_out(outcomes)  # on CPU too: here the host is this one
        given_up = given_up_shapes(outcomes)
        elsewhere = self.study.running_elsewhere()
        found = [
            self.candidate(one)
            for one in (*self.configs, *loading_variants(outcomes, self.profile))
            if one not in but
            and tried[one] == min(lost[one], REPEATS_OF_LOST_TRIAL)
            and one not in elsewhere
            and shape_of(one) not in given_up
            and not ruled_out.has(one)
        ]
        return tuple(one for one in found if one is not None)

    def trial_cost_usd(self, config: TrialConfig, held_s: float) -> float | None:
        """Dollars for ``held_s`` of all that a group with room for ``config`` holds; None without a price."""
        count = self.market.held_count(config, self.worker_count_max(config.gpu))
        return self.market.held_usd(config.gpu, held_s, count)

    def expected_trial_s(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> float:
        """Wall time that a trial of ``config`` will hold its devices."""
        seen = [one for one in self.outcomes if isinstance(one, Measurement)]
        step = self.estimator.step_time_s(config, self.market.hardware_at_hand(config))
        # by the median: a trial that is far slower than believed is ended by its limit
        spread = 0.0 if step is None else log_spread(step, self.market.confidence)
        step_s = None if step is None else median_of(step.expected, spread)
        return expected_trial_s(config, purpose, step_s, seen)

    def run_cost(self, config: TrialConfig) -> Estimate | None:
        """Of the target run."""
        run = self.run(config)
        return None if run is None else run.cost

    def run(self, config: TrialConfig) -> TargetRun | None:
        """The target run; see `Market.run`."""
        return self.market.run(config, self.estimator, self.pricer)

    @property
    def outcomes(self) -> list[Outcome]:
        """Of all ended trials, the first one first."""
        return [one.outcome for one in self.trials]

    def admitted(self) -> list[TrialConfig]:
        """What was measured, trains the target's batch and did not fail afterwards, each once."""
        ruled_out = rule_out(self.outcomes)
        measured = (one.config for one in self.outcomes if isinstance(one, Measurement))
        return [one for one in dict.fromkeys(measured) if self.trains_target(one) and not ruled_out.has(one)]

    def running(self, configs: Sequence[TrialConfig]) -> tuple[Candidate, ...]:
        """What is believed of trials that have begun; without probes, which are of no use to the target."""
        found = [self.candidate(one) for one in configs if self.trains_target(one)]
        return tuple(one for one in found if one is not None)

    def trains_target(self, config: TrialConfig) -> bool:
        """Whether it has the target's batch; a probe has another."""
        return config.global_batch_size == self.market.target.global_batch_size

    def value(self, outcome: Outcome | None) -> float | None:
        """What the study has as a trial's value: dollars of the target run; None where there is none."""
        if not isinstance(outcome, Measurement) or outcome.purpose is Purpose.PROBE:
            return None
        cost = self.run_cost(outcome.config)
        return None if cost is None else cost.expected

    def candidate(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Candidate | None:
        """A trial with what is believed of it; None where its devices left."""
        trial_s = self.expected_trial_s(config, purpose)
        cost_usd = self.trial_cost_usd(config, trial_s)
        return self.market.candidate(config, self.estimator, self.run(config), cost_usd, trial_s)


def _is_by_chance(outcome: Outcome) -> bool:
    """A lost worker says nothing about the configuration."""
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.WORKER_LOST
