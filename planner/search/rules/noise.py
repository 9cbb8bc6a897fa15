"""A trial for the gradient noise, where the study lacks it and no trial of this sweep could tell."""

from __future__ import annotations

from planner.modes import PRECISIONS
from planner.search.proposal import Proposal
from planner.search.rules.rule import Rule
from planner.search.situation import Situation
from trials.api import Extras, Measurement, TrialConfig


def propose(situation: Situation) -> Proposal | None:
    """The cheapest run among those that can show it."""
    state, extras = situation.state, situation.extras
    measured = [one for one in state.outcomes if isinstance(one, Measurement)]
    if not extras.is_noise_measured or any(_has_noise(one, extras) for one in measured):
        return None
    if any(_shows_noise(one.outcome.config) for one in state.trials[situation.earlier_count :]):
        return None
    able = [one for one in state.admitted() if _shows_noise(one)]
    costs = {one: cost.expected for one in able if (cost := state.run_cost(one)) is not None}
    if not costs:
        return None
    return situation.proposal(min(costs, key=lambda one: costs[one]), "for the gradient noise scale")


def _has_noise(one: Measurement, extras: Extras) -> bool:
    return one.noise is not None and one.noise.checkpoint == extras.noise_checkpoint


def _shows_noise(config: TrialConfig) -> bool:
    """Scaled gradients need their scale, and those of several workers each other."""
    return config.gpu_count == 1 and not PRECISIONS[config.precision].is_loss_scaled


RULE = Rule(propose=propose, is_alone=True)
