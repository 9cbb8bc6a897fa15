"""A trial that was disturbed, once more, if it may be the best."""

from __future__ import annotations

from collections.abc import Sequence

from planner.search.proposal import Proposal
from planner.search.rules.rule import Rule
from planner.search.situation import Situation
from trials.api import Measurement, Outcome, Purpose, TrialConfig


def propose(situation: Situation) -> Proposal | None:
    """What has no room beside the running trials waits for it; nothing else begins on its type meanwhile."""
    state, running = situation.state, situation.running
    _, best_cost = state.best()
    for config in state.admitted():
        cost = state.run_cost(config)
        if config in running.configs or cost is None or best_cost is None or cost.low > best_cost.high:
            continue
        why = is_to_be_repeated(config, state.outcomes)
        if why and not running.have_room_for(config):
            situation.reserved.add(config.gpu)
        elif why:
            return situation.proposal(config, why)
    return None


def is_to_be_repeated(config: TrialConfig, outcomes: Sequence[Outcome]) -> str:
    """Why a configuration's only trial is run once more; "" where it is not."""
    own = [one for one in outcomes if one.config == config]
    if len(own) != 1 or not isinstance(own[0], Measurement) or own[0].purpose is not Purpose.SEARCH:
        return ""
    disturbance = own[0].disturbance
    return f"once more, since it was {disturbance}" if disturbance else ""


RULE = Rule(propose=propose)
