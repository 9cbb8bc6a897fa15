"""What the techniques of one configuration say together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from planner.modes import PARALLELISMS, PRECISIONS, TECHNIQUES
from planner.modes.terms import Group, Traffic
from trials.api import TrialConfig, WorkloadProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """What decides whether a model trains as in the reference: precision, and techniques of own numerics."""

    precision: str
    techniques: tuple[str, ...]

    @property
    def label(self) -> str:
        """In a sentence."""
        return " with ".join((self.precision, *(TECHNIQUES[one].label for one in self.techniques)))

    def holds_for(self, other: Arithmetic) -> bool:
        """Whether what failed here fails there: one technique more mends no arithmetic."""
        return self.precision == other.precision and set(self.techniques) <= set(other.techniques)


def arithmetic_of(config: TrialConfig) -> Arithmetic:
    """The arithmetic of a configuration."""
    own = tuple(one for one in config.techniques if TECHNIQUES[one].has_own_numerics)
    return Arithmetic(precision=config.precision, techniques=own)


def traced_part(techniques: Collection[str]) -> tuple[str, ...]:
    """Those that change the operations of a step: a trace has them, or stands for those without."""
    return tuple(one for one in techniques if TECHNIQUES[one].is_traced)


def changed(before: Collection[str], after: Collection[str]) -> tuple[str, ...]:
    """What is on in one of two configurations only, plainest first."""
    return tuple(one for one in TECHNIQUES.names if (one in before) != (one in after))


@lru_cache(maxsize=4096)
def switches(techniques: tuple[str, ...]) -> tuple[bool, ...]:
    """Whether each technique is on, the least plain first: by this, plain configurations sort first."""
    return tuple(one in techniques for one in reversed(TECHNIQUES.names))


def traffic_of(
    parallelism: str,
    precision: str,
    techniques: Collection[str],
    group: Group,
    profile: WorkloadProfile | None,
) -> Traffic:
    """What the workers of ``group`` exchange of the workload."""
    traffic = PARALLELISMS[parallelism].traffic(profile, group, PRECISIONS[precision])
    for one in techniques:
        traffic = TECHNIQUES[one].traffic(traffic)
    return traffic


def plainness(config: TrialConfig) -> int:
    """How much there is to go wrong; of equals, the one that is better known is preferred."""
    loading = (config.loader_worker_count, config.loader_prefetch_count, config.is_pinned)
    return (
        PARALLELISMS[config.parallelism].plainness
        + PRECISIONS[config.precision].plainness
        + sum(TECHNIQUES[one].plainness for one in config.techniques)
        + sum(one is not None for one in loading)
    )
