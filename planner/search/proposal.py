"""A trial that a rule proposes, and what the sweep may still take."""

from __future__ import annotations

from dataclasses import dataclass

from planner.search.acquisition import Candidate
from trials.api import Purpose, TrialConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The trial that a rule wants next, and why."""

    candidate: Candidate
    reason: str
    purpose: Purpose = Purpose.SEARCH
    expected_saving: float | None = None  # in the unit of the run's cost; None where it is no reason

    @property
    def config(self) -> TrialConfig:
        """What is to be tried."""
        return self.candidate.config

    @property
    def trial_cost_usd(self) -> float | None:
        """What the trial will cost; None where its device has no price."""
        return self.candidate.trial_cost_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the sweep may still take; None without a limit."""

    usd: float | None = None
    trial_count: int | None = None
    s: float | None = None

    def pays_for(self, candidate: Candidate) -> bool:
        """Whether its trial can still be paid for, one without a price always, and would end in time."""
        is_paid = self.usd is None or candidate.trial_cost_usd is None or candidate.trial_cost_usd <= self.usd
        return is_paid and self.has_time_for(candidate)

    def has_time_for(self, candidate: Candidate) -> bool:
        """Whether its trial is expected to end in the time that is left."""
        return self.s is None or candidate.trial_s <= self.s


UNLIMITED = Allowance()
