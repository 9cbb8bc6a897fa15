"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.search.proposal import Proposal
from planner.search.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Proposes a trial, or passes by None."""

    propose: Callable[[Situation], Proposal | None]
    is_alone: bool = False  # it begins only when nothing is running, once no rule before it proposes
    goes_ahead: Callable[[Situation, Proposal, Proposal], bool] | None = None
    """Whether its proposal, the second argument, goes ahead of that of a rule before it, the third."""
