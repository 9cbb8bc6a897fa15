"""What is asked of a warm group of workers, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from trials.extras import Extras
from trials.measurement import Outcome
from trials.trial import Purpose, TrialConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """A trial for the workers of a group: what, on which ranks, within which seconds."""

    trial_id: int
    config: TrialConfig
    ranks: tuple[int, ...]  # of the group's workers, those that take part
    limit_s: float
    restart_limit_s: float  # how long replaced workers may take to come back
    extras: Extras = field(default_factory=Extras)
    purpose: Purpose = Purpose.SEARCH


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReply:
    """The outcome of a trial, and whether its group is still fit for another."""

    outcome: Outcome
    is_broken: bool = False  # the group did not recover and must be replaced
