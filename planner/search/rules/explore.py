"""The trial with the largest expected saving on the target run per dollar, while one saves its price."""

from __future__ import annotations

from planner.modes.chosen import switches
from planner.search.acquisition import Candidate, most_worth
from planner.search.proposal import Proposal
from planner.search.rules import opening
from planner.search.rules.probe import reached
from planner.search.rules.rule import Rule
from planner.search.situation import Situation, Untried


def propose(situation: Situation) -> Proposal | None:
    """None where no trial is expected to save its price."""
    tried, confidence = situation.tried, situation.state.market.confidence
    if situation.running.configs and len(tried) < opening.TRIAL_COUNT:
        return None  # what is worth trying beside them is predicted from these
    if opening.next_of_opening(situation.untried.candidates, tried) is not None:
        return None  # not worth its price, or not to be paid for
    return reached(situation, lambda untried: pick(untried, confidence))


def pick(untried: Untried, confidence: float) -> Proposal | None:
    """The best of the untried; while nothing has run, what needs the least."""
    if untried.best_cost is None:
        smallest = min(untried.candidates, key=_need, default=None)
        if smallest is None:
            return None
        return Proposal(candidate=smallest, reason="nothing has run yet: what needs the least")
    worth = most_worth(untried.candidates, untried.best_cost, confidence)
    if worth is None or not worth.pays:
        return None
    reason = "largest expected saving for what it costs"
    return Proposal(candidate=worth.candidate, reason=reason, expected_saving=worth.saving)


def _need(candidate: Candidate) -> tuple[float, int, tuple[bool, ...]]:
    """Memory first."""
    config, memory = candidate.config, candidate.memory
    need = memory.expected if memory is not None else float(config.micro_batch_size)
    return need, config.gpu_count, switches(config.techniques)


RULE = Rule(propose=propose)
