"""A trial that somebody asks for, and what may still be spent on it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.search.acquisition import Candidate, Choice
from trials.api import Purpose

Wanted = tuple[Choice, Candidate, Purpose]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What the sweep may still take; None without a limit."""

    usd: float | None = None
    trial_count: int | None = None
    s: float | None = None


def is_affordable(candidate: Candidate, usd_left: float | None) -> bool:
    """Whether its trial can still be paid for; one without a price always."""
    return usd_left is None or candidate.trial_cost_usd is None or candidate.trial_cost_usd <= usd_left
