"""The winner's loss curve or its reference's, where nobody has compared them."""

from __future__ import annotations

from planner.plans.numerics_check import next_guard, reference_of
from planner.plans.rule_out import rule_out
from planner.search.acquisition import fit_probability
from planner.search.proposal import Proposal
from planner.search.rules.confirm import is_dear
from planner.search.rules.probe import SAFE_PROBABILITY
from planner.search.rules.rule import Rule
from planner.search.situation import Situation
from planner.search.state import SearchState
from trials.api import Purpose, TrialConfig


def propose(situation: Situation) -> Proposal | None:
    """The trial that is missing of the two, where it costs little beside the target run."""
    state = situation.state
    best, best_cost = state.best()
    config = None if best is None else next_guard(best, state.outcomes, lambda one: _is_safe(one, state))
    if config is None or best_cost is None:
        return None
    proposal = situation.proposal(config, "does it train as fp32 does", Purpose.GUARD)
    return None if proposal is None or is_dear(proposal, best_cost) else proposal


def is_last_chance(situation: Situation, check: Proposal, other: Proposal) -> bool:
    """Whether what the check still takes would find no room after ``other``, and finds it now."""
    state, left = situation.state, situation.allowance
    count = 2 if reference_of(check.config) == check.config else 1
    # steps that waver take longer than expected
    longest_s = max(one.trial_s for one in state.outcomes)
    (check_s, check_usd), (other_s, other_usd) = (
        (held_s, state.trial_cost_usd(one.config, held_s) or 0.0)
        for one in (check, other)
        for held_s in [max(longest_s, state.expected_trial_s(one.config, one.purpose))]
    )
    rooms = (
        (left.trial_count, count, count + 1),
        (left.s, (count - 1) * check_s, count * check_s + other_s),  # the last may end after the limit
        (left.usd, count * check_usd, count * check_usd + other_usd),
    )
    known = [(has, needed, both) for has, needed, both in rooms if has is not None]
    return all(has >= needed for has, needed, _ in known) and any(has < both for has, _, both in known)


def _is_safe(config: TrialConfig, state: SearchState) -> bool:
    candidate = state.candidate(config)
    return (
        candidate is not None
        and fit_probability(candidate, state.market.confidence) >= SAFE_PROBABILITY
        and not rule_out(state.outcomes).has(config)
    )


RULE = Rule(propose=propose, is_alone=True, goes_ahead=is_last_chance)
