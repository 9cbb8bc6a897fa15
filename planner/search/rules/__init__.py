"""Which trial next, as rules in order: a new one is a file here and its place in `RULES`.

The first rule that does not pass says what is tried. The winner's numerics check comes late, but while there
is still room for it: nobody is to be told to train with arithmetic that nobody has seen to train because the
minutes were up. It, the gradient noise and the confirmation wait until all results are in.
"""

from __future__ import annotations

from planner.search.proposal import UNLIMITED, Proposal
from planner.search.rules import confirm, explore, noise, numerics_check, opening, repeat
from planner.search.rules.rule import Rule
from planner.search.situation import Situation

RULES: tuple[Rule, ...] = (
    repeat.RULE,
    opening.RULE,
    explore.RULE,
    numerics_check.RULE,
    noise.RULE,
    confirm.RULE,
)


def next_proposal(situation: Situation, rules: tuple[Rule, ...] = RULES) -> Proposal | None:
    """The trial that the rules ask for; None where none is to begin now."""
    if situation.running.are_last:
        return None
    chosen: Proposal | None = None
    for rule in rules:
        if chosen is None:
            if rule.is_alone and situation.running.configs:
                return None
            chosen = rule.propose(situation)
        elif rule.goes_ahead is not None and situation.allowance != UNLIMITED:
            own = rule.propose(situation)
            if own is not None and rule.goes_ahead(situation, own, chosen):
                chosen = None if rule.is_alone and situation.running.configs else own
                break
    return chosen
