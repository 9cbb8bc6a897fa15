"""What trials have shown not to work, so that no plan rests on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from planner.estimate.setting import Setting, technique_of
from planner.modes.chosen import Arithmetic, arithmetic_of
from planner.plans.numerics_check import rejected_arithmetic
from trials.api import Failure, FailureKind, Measurement, Outcome, TrialConfig

# Chance, not the configuration, ended these; they may be planned again.
_BY_CHANCE = frozenset({FailureKind.WORKER_LOST, FailureKind.COMMUNICATION_FAILED, FailureKind.WRONG_DEVICE})
COMMUNICATION_FAILURES_MAX = 2  # of a GPU type, GPUs and nodes, before these are given up


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledOut:
    """Failures, by how far each reaches."""

    configs: frozenset[TrialConfig]  # failed for a reason of their own
    techniques: frozenset[Setting]  # unsupported at any batch size
    overflowing: dict[Setting, int]  # least micro batch size that ran out of memory
    diverged: frozenset[Arithmetic]  # that was not sane in a trial
    measured: frozenset[TrialConfig]  # worked at least once
    sane: frozenset[Arithmetic]  # that was, in another
    rejected: frozenset[Arithmetic]  # whose loss did not follow fp32's

    def has(self, config: TrialConfig) -> bool:
        """Whether a trial speaks against planning with ``config``."""
        arithmetic = arithmetic_of(config)
        if any(one.holds_for(arithmetic) for one in self.rejected):
            return True
        if config in self.measured:
            return False
        if config in self.configs:
            return True
        if arithmetic not in self.sane and any(one.holds_for(arithmetic) for one in self.diverged):
            return True
        if not self.techniques and not self.overflowing:
            return False
        technique = technique_of(config)
        limit = self.overflowing.get(technique)
        return technique in self.techniques or (limit is not None and config.micro_batch_size >= limit)


def rule_out(outcomes: Iterable[Outcome], cpus: frozenset[str] = frozenset()) -> RuledOut:
    """What the failures among ``outcomes`` speak against.

    Out of memory speaks against every larger micro batch of the same technique on the same devices;
    divergence against that arithmetic everywhere, unless it was sane in another trial. On ``cpus`` memory
    is the host's, which differs between instances: there out of memory speaks against nothing.
    """
    known = list(outcomes)
    telling = [one for one in known if isinstance(one, Measurement) or one.kind not in _BY_CHANCE]
    last = {one.config: one for one in telling}  # a confirmation may fail where a short trial did not
    measured = {config for config, one in last.items() if isinstance(one, Measurement)}
    configs: set[TrialConfig] = set()
    techniques: set[Setting] = set()
    overflowing: dict[Setting, int] = {}
    diverged: set[Arithmetic] = set()
    for one in known:
        if isinstance(one, Measurement) or one.kind in _BY_CHANCE:
            continue
        if one.kind is FailureKind.OUT_OF_MEMORY:
            if one.config.gpu in cpus:
                continue
            technique, size = technique_of(one.config), one.config.micro_batch_size
            overflowing[technique] = min(size, overflowing.get(technique, size))
        elif one.kind is FailureKind.UNSUPPORTED:
            techniques.add(technique_of(one.config))
        elif one.kind is FailureKind.DIVERGED:
            diverged.add(arithmetic_of(one.config))
        configs.add(one.config)
    return RuledOut(
        configs=frozenset(configs),
        techniques=frozenset(techniques - {technique_of(one) for one in measured}),
        overflowing=overflowing,
        diverged=frozenset(diverged),
        sane=frozenset(map(arithmetic_of, measured)),
        measured=frozenset(measured),
        rejected=rejected_arithmetic(known),
    )


def given_up_shapes(outcomes: Iterable[Outcome]) -> frozenset[tuple[str, int, int]]:
    """GPU type, workers and nodes between which communication failed twice and never worked.

    It speaks of the cluster of the trials, not of what is rented: no plan is ruled out by it.
    """
    known = list(outcomes)
    failed = Counter(
        shape_of(outcome.config)
        for outcome in known
        if isinstance(outcome, Failure) and outcome.kind is FailureKind.COMMUNICATION_FAILED
    )
    worked = {shape_of(outcome.config) for outcome in known if isinstance(outcome, Measurement)}
    return frozenset(shape for shape, count in failed.items() if count >= COMMUNICATION_FAILURES_MAX) - worked


def shape_of(config: TrialConfig) -> tuple[str, int, int]:
    """GPU type, workers and nodes."""
    return config.gpu, config.gpu_count, config.node_count
