"""Optuna behind ask() and tell(): the study is a normal one, the sampler proposes by the analytic model.

Everything the sampler knows it reads back from the study's raw measurements, so a resumed sweep goes on
exactly where it stopped and no configuration is measured twice. GPU type, workers, micro batch size,
precision, parallelism, checkpointing and compilation are the dimensions; accumulation follows from the
target's global batch size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from catalogs.gpus import DeviceKind, Gpu
from catalogs.offers import Offer
from planner.acquisition import Candidate, Choice, choose
from planner.allin_parameters import Stated
from planner.cost import SECONDS_PER_HOUR, held_usd
from planner.estimate import Estimate, Estimator, Hardware, fit
from planner.estimate.loading import loader_variants
from planner.plan import hardware_of
from planner.price_run import Pricer, Terms
from planner.rule_out import rule_out
from planner.stopping import why_none
from planner.store import Study
from planner.target import Target
from trials.devices import DeviceGroup
from trials.profile import WorkloadProfile
from trials.trial import Failure, FailureKind, Measurement, Outcome, Parallelism, Precision, TrialConfig

WARM_UP_STEP_COUNT = 20  # warm-up and timed steps of a trial, for what it will cost
REPEATS_OF_LOST_TRIAL = 1
STARTUP_S = 20.0  # of a trial before any was seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What the search prices with: the target, the offers that the user admits, the devices at hand."""

    target: Target
    offers: tuple[Offer, ...]
    gpus: Mapping[str, Gpu]
    groups: tuple[DeviceGroup, ...]
    usd_per_hour: Mapping[str, float | None]  # of one device at hand (a GPU, or the CPU machine), by GPU name
    confidence: float = 0.9
    stated: Stated = field(default_factory=Stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A trial that the study has been asked for."""

    optuna_trial: optuna.Trial
    choice: Choice
    candidate: Candidate


class Search:
    """Which trial next, until none pays for itself."""

    def __init__(
        self, study: Study, configs: Sequence[TrialConfig], market: Market, profile: WorkloadProfile
    ) -> None:
        self._study = study
        self._configs = configs
        self._market = market
        self._profile = profile
        self._trials = study.trials()
        self._estimator: Estimator | None = None
        self._pricer: Pricer | None = None

    @property
    def estimator(self) -> Estimator:
        """Fitted to everything measured so far."""
        if self._estimator is None:
            outcomes = [one.outcome for one in self._trials]
            self._estimator = fit(
                [one for one in outcomes if isinstance(one, Measurement)],
                gpus=self._market.gpus,
                profile=self._profile,
                failures=[one for one in outcomes if isinstance(one, Failure)],
                confidence=self._market.confidence,
            )
        return self._estimator

    @property
    def pricer(self) -> Pricer:
        """Of target runs, with what trials measured besides steps; the sweep's own cost is left out."""
        if self._pricer is None:
            outcomes = [one.outcome for one in self._trials]
            terms = Terms(
                target=self._market.target,
                profile=self._profile,
                stated=self._market.stated,
                sweep_usd=None,
                measurements=tuple(one for one in outcomes if isinstance(one, Measurement)),
                confidence=self._market.confidence,
            )
            self._pricer = Pricer(terms, has_luck=False)
        return self._pricer

    def settle(self) -> int:
        """End the trials that a killed sweep left running; the number that had no outcome yet."""
        leftovers = self._study.leftovers()
        for number, outcome in leftovers:
            self._study.close(number, outcome, self._value(outcome))
        self._trials = self._study.trials()
        return sum(outcome is None for _, outcome in leftovers)

    def ask(self, usd_left: float | None) -> Proposal | None:
        """The next trial, or None when no trial that ``usd_left`` can pay for is worth its price."""
        candidates = [
            one
            for one in self.candidates()
            if usd_left is None or one.trial_cost_usd is None or one.trial_cost_usd <= usd_left
        ]
        _, best_cost = self.best()
        choice = choose(
            candidates,
            best_cost.expected if best_cost is not None else None,
            self._market.confidence,
            [one.outcome.config for one in self._trials],
        )
        if choice is None:
            return None
        candidate = next(one for one in candidates if one.config == choice.config)
        optuna_trial = self._study.ask(params_of(choice.config), distributions(self._market.gpus))
        self._study.start(optuna_trial, choice.config)
        return Proposal(optuna_trial=optuna_trial, choice=choice, candidate=candidate)

    def worker_count_max(self, gpu: str) -> int:
        """The most workers that a trial on this GPU type may ask for."""
        return max((one.gpu_count for one in self._configs if one.gpu == gpu), default=0)

    def why_no_more(self) -> str:
        """Why ask() gave None, in words."""
        left = self.candidates()
        if not left:
            return "every configuration has been tried"
        _, best_cost = self.best()
        return why_none(left, best_cost, self._market.confidence, is_opening=len(self._trials) == 1)

    def best(self) -> tuple[TrialConfig | None, Estimate | None]:
        """The measured configuration with the cheapest target run, and that cost."""
        costs = [
            (cost.expected, index, one.outcome.config, cost)
            for index, one in enumerate(self._trials)
            if isinstance(one.outcome, Measurement)
            and (cost := self.run_cost(one.outcome.config)) is not None
        ]
        if not costs:
            return None, None
        _, _, config, cost = min(costs, key=lambda row: row[:2])
        return config, cost

    def drop(self, proposal: Proposal) -> None:
        """Nothing was tried: the configuration stays untried."""
        self._study.close(proposal.optuna_trial.number, None, None)

    def tell(self, proposal: Proposal, outcome: Outcome, held_s: float) -> None:
        """Save the outcome, then let the study have its value. ``held_s`` counts the start of workers too."""
        cost_usd = self.trial_cost_usd(outcome.config, held_s)
        self._study.save(proposal.optuna_trial, outcome, cost_usd, _violation(outcome, proposal.candidate))
        self._trials = self._study.trials()
        self._estimator = self._pricer = None
        self._study.close(proposal.optuna_trial.number, outcome, self._value(outcome))

    def candidates(self) -> tuple[Candidate, ...]:
        """What has not been tried and no failure speaks against, with what is believed of it."""
        outcomes = [one.outcome for one in self._trials]
        tried = Counter(one.config for one in outcomes)
        lost = Counter(one.config for one in outcomes if _is_by_chance(one))
        ruled_out = rule_out(outcomes)  # on CPU too: here the host is this one
        return tuple(
            self._candidate(one)
            for one in (*self._configs, *loader_variants(outcomes, self._profile))
            if tried[one] == min(lost[one], REPEATS_OF_LOST_TRIAL) and not ruled_out.has(one)
        )

    def trial_cost_usd(self, config: TrialConfig, held_s: float) -> float | None:
        """Dollars for holding the devices of ``config`` for ``held_s``; None where they have no price."""
        is_cpu = self._market.gpus[config.gpu].kind is DeviceKind.CPU
        device_count = config.node_count if is_cpu else config.gpu_count
        return held_usd(held_s, device_count, self._market.usd_per_hour.get(config.gpu))

    def expected_trial_s(self, config: TrialConfig) -> float:
        """Wall time that a trial of ``config`` will hold its devices."""
        seen = [one.outcome for one in self._trials if isinstance(one.outcome, Measurement)]
        startup_s = max((one.startup_s + one.first_step_s for one in seen), default=STARTUP_S)
        step = self.estimator.step_time_s(config, self._hardware_at_hand(config))
        # a large accumulation is timed at two small counts
        shorter = min(1.0, 4 / config.accumulation)
        return startup_s + (step.expected * shorter * WARM_UP_STEP_COUNT if step is not None else STARTUP_S)

    def run_cost(self, config: TrialConfig) -> Estimate | None:
        """Of the target run on the best offer that carries the configuration.

        Dollars, with the waiting where an hour of it has a value; device hours when none of the GPU types at
        hand has an offer; None when only this one lacks an offer, or nothing can be said.
        """
        carriers = [offer for offer in self._market.offers if _carries(offer, config, self._market.gpus)]
        costs = [cost for offer in carriers if (cost := self._offer_cost(offer, config)) is not None]
        if costs:
            return min(costs, key=lambda one: one.expected)
        priced = {one.gpu for one in self._market.offers}
        if any(group.gpu in priced for group in self._market.groups):
            return None
        step = self.estimator.step_time_s(config, self._hardware_at_hand(config))
        if step is None:
            return None
        return self.pricer.held_s(config, step).scaled(config.gpu_count / SECONDS_PER_HOUR)

    def _offer_cost(self, offer: Offer, config: TrialConfig) -> Estimate | None:
        hardware = hardware_of(offer, self._market.gpus[offer.gpu], config.node_count)
        step = self.estimator.step_time_s(config, hardware)
        if step is None:
            return None
        return self.pricer.weighed_usd(offer, config.node_count, config, step)

    def _value(self, outcome: Outcome | None) -> float | None:
        if not isinstance(outcome, Measurement):
            return None
        cost = self.run_cost(outcome.config)
        return None if cost is None else cost.expected

    def _candidate(self, config: TrialConfig) -> Candidate:
        return Candidate(
            config=config,
            run_cost=self.run_cost(config),
            trial_cost_usd=self.trial_cost_usd(config, self.expected_trial_s(config)),
            memory=self.estimator.peak_memory_bytes(config, self._hardware_at_hand(config)),
            memory_bytes=self._memory_bytes(config),
        )

    def _group(self, config: TrialConfig) -> DeviceGroup:
        return next(group for group in self._market.groups if group.gpu == config.gpu)

    def _memory_bytes(self, config: TrialConfig) -> int:
        group = self._group(config)
        smallest = min(node.device_memory_bytes for node in group.nodes)
        return smallest // config.gpu_count if group.is_cpu else smallest

    def _hardware_at_hand(self, config: TrialConfig) -> Hardware:
        group = self._group(config)
        gpu = self._market.gpus[config.gpu]
        return Hardware(gpu=gpu, link=gpu.link, vcpus=group.nodes[0].cpu_count)


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
    }


def _carries(offer: Offer, config: TrialConfig, gpus: Mapping[str, Gpu]) -> bool:
    """Whether ``node_count`` instances of the offer have the devices; one rents whole instances."""
    if offer.gpu != config.gpu:
        return False
    is_cpu = gpus[offer.gpu].kind is DeviceKind.CPU
    return is_cpu or offer.gpu_count * config.node_count >= config.gpu_count


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
