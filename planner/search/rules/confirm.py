"""The winner in full before it is recommended, where its measurement leaves something open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.estimate import Estimate
from planner.plans.ties import is_tied_here, preference
from planner.search.proposal import Proposal
from planner.search.rules.rule import Rule
from planner.search.situation import Situation
from trials.api import Measurement, Outcome, Purpose, TrialConfig

COST_FRACTION_MAX = 0.05  # of the target run, which a trial of the winner may cost
NEAR_FRACTION = 0.85  # of the memory, from which the winner's peak is confirmed over many steps
NEAR_FRACTION_VARYING = 0.5  # the same where samples come from a dataset, whose lengths may vary
CONFIRMATIONS_MAX = 3  # of one study: noise may make one winner after the other


def propose(situation: Situation) -> Proposal | None:
    """One more trial of the winner, where it costs little beside the target run."""
    state, market = situation.state, situation.state.market
    best, best_cost = state.best()
    if best is None or best_cost is None:
        return None
    estimator = state.estimator
    steps = {
        one: step
        for one in state.admitted()
        if (step := estimator.step_time_s(one, market.hardware_at_hand(one))) is not None
    }
    winner = simplest_of(best, steps)
    group = market.group(winner)
    if group is None:
        return None
    why = is_to_be_confirmed(
        winner,
        state.outcomes,
        market.memory_bytes(group, winner, estimator),
        has_dataset=state.profile.dataset_size is not None,
    )
    proposal = situation.proposal(winner, why, Purpose.CONFIRM) if why else None
    return None if proposal is None or is_dear(proposal, best_cost) else proposal


def is_dear(proposal: Proposal, run_cost: Estimate) -> bool:
    """Whether a trial costs too much beside the run that it is to make sure of."""
    return (proposal.trial_cost_usd or 0.0) > COST_FRACTION_MAX * run_cost.expected


def is_to_be_confirmed(
    winner: TrialConfig, outcomes: Sequence[Outcome], memory_bytes: int, *, has_dataset: bool
) -> str:
    """Why the winner is run in full; "" where its trial says all, or it has been."""
    confirmed = [one.config for one in outcomes if one.purpose is Purpose.CONFIRM]
    own = [one for one in outcomes if one.config == winner and isinstance(one, Measurement)]
    if winner in confirmed or len(confirmed) >= CONFIRMATIONS_MAX or not own:
        return ""
    last = own[-1]
    if last.is_interpolated:
        return "the winner in full, since its step was interpolated"
    near = NEAR_FRACTION_VARYING if has_dataset else NEAR_FRACTION
    if last.peak_memory_bytes > near * memory_bytes:
        return "the winner at length, since it nearly fills the memory"
    return ""


def simplest_of(best: TrialConfig, steps: Mapping[TrialConfig, Estimate]) -> TrialConfig:
    """The simplest configuration that cannot be told apart from ``best`` on the same devices.

    Of equally simple ones, one that was measured in full: `planner.plans.choose_config` takes it too.
    """
    if best not in steps:
        return best
    tied = [
        config
        for config, step in steps.items()
        if (config.gpu, config.gpu_count, config.node_count) == (best.gpu, best.gpu_count, best.node_count)
        and is_tied_here(step, steps[best])
    ]
    return min(tied, key=lambda one: preference(one, steps[one]))


RULE = Rule(propose=propose, is_alone=True)
