"""Trials for a reason of their own: a repeat, the gradient noise, the winner's guard and its confirmation."""

from __future__ import annotations

from planner.plans.numerics_check import next_guard, reference_of
from planner.plans.rule_out import rule_out
from planner.search.acquisition import Choice, fit_probability
from planner.search.approach import SAFE_PROBABILITY
from planner.search.flights import Flights
from planner.search.known import Known
from planner.search.second_look import is_to_be_confirmed, is_to_be_repeated, simplest_of
from planner.search.wanted import Left, Wanted, is_affordable
from trials.api import Extras, Measurement, Purpose, TrialConfig, shows_noise

CONFIRMATION_FRACTION = 0.05  # of the target run, which a confirmation may cost


class FollowUps:
    """What is to be run again or apart from the search, and when."""

    def __init__(self, known: Known, extras: Extras) -> None:
        self._known = known
        self._extras = extras
        self._known_count = len(known.trials)  # before this sweep

    def repeat(self, usd_left: float | None, flights: Flights, waiting: set[str]) -> Wanted | None:
        """A trial that was disturbed, once more, if it may be the best."""
        _, best_cost = self._known.best()
        for config in self._known.admitted():
            cost = self._known.run_cost(config)
            if config in flights.configs or cost is None or best_cost is None or cost.low > best_cost.high:
                continue
            why = is_to_be_repeated(config, self._known.outcomes)
            if why and not flights.have_room_for(config):
                waiting.add(config.gpu)
            elif why:
                return self.wanted(config, why, Purpose.SEARCH, usd_left)
        return None

    def noise(self, usd_left: float | None) -> Wanted | None:
        """A trial for the gradient noise, where the study lacks it and no trial of this sweep could tell."""
        measured = [one for one in self._known.outcomes if isinstance(one, Measurement)]
        if not self._extras.is_noise_measured or any(self._has_noise(one) for one in measured):
            return None
        if any(shows_noise(one.outcome.config) for one in self._known.trials[self._known_count :]):
            return None
        able = [one for one in self._known.admitted() if shows_noise(one)]
        costs = {one: cost.expected for one in able if (cost := self._known.run_cost(one)) is not None}
        if not costs:
            return None
        config = min(costs, key=lambda one: costs[one])
        return self.wanted(config, "for the gradient noise scale", Purpose.SEARCH, usd_left)

    def _has_noise(self, one: Measurement) -> bool:
        return one.noise is not None and one.noise.checkpoint == self._extras.noise_checkpoint

    def is_last_chance(self, guard: Wanted, wanted: Wanted, left: Left) -> bool:
        """Whether what the guard still takes would find no room after ``wanted``, and finds it now."""
        count = 2 if reference_of(guard[0].config) == guard[0].config else 1
        # steps that waver take longer than expected
        longest_s = max(one.trial_s for one in self._known.outcomes)
        (guard_s, guard_usd), (wanted_s, wanted_usd) = (
            (held_s, self._known.trial_cost_usd(config, held_s) or 0.0)
            for choice, _, purpose in (guard, wanted)
            for config in [choice.config]
            for held_s in [max(longest_s, self._known.expected_trial_s(config, purpose))]
        )
        rooms = (
            (left.trial_count, count, count + 1),
            (left.s, (count - 1) * guard_s, count * guard_s + wanted_s),  # the last may end after the limit
            (left.usd, count * guard_usd, count * guard_usd + wanted_usd),
        )
        known = [(has, needed, both) for has, needed, both in rooms if has is not None]
        return all(has >= needed for has, needed, _ in known) and any(has < both for has, _, both in known)

    def guard(self, usd_left: float | None) -> Wanted | None:
        """The winner's loss curve or its reference's, where nobody has compared them."""
        best, best_cost = self._known.best()
        config = None if best is None else next_guard(best, self._known.outcomes, self._is_safe)
        if config is None or best_cost is None:
            return None
        wanted = self.wanted(config, "does it train as fp32 does", Purpose.GUARD, usd_left)
        if wanted is None or (wanted[0].trial_cost_usd or 0.0) > CONFIRMATION_FRACTION * best_cost.expected:
            return None
        return wanted

    def _is_safe(self, config: TrialConfig) -> bool:
        candidate = self._known.candidate(config)
        return (
            candidate is not None
            and fit_probability(candidate, self._known.market.confidence) >= SAFE_PROBABILITY
            and not rule_out(self._known.outcomes).has(config)
        )

    def confirmation(self, usd_left: float | None) -> Wanted | None:
        """The winner in full, where its measurement leaves something open."""
        best, best_cost = self._known.best()
        if best is None or best_cost is None:
            return None
        estimator, market = self._known.estimator, self._known.market
        steps = {
            one: step
            for one in self._known.admitted()
            if (step := estimator.step_time_s(one, market.hardware_at_hand(one))) is not None
        }
        winner = simplest_of(best, steps)
        group = market.group(winner)
        if group is None:
            return None
        why = is_to_be_confirmed(
            winner,
            self._known.outcomes,
            market.memory_bytes(group, winner, estimator),
            has_dataset=self._known.profile.dataset_size is not None,
        )
        wanted = self.wanted(winner, why, Purpose.CONFIRM, usd_left) if why else None
        if wanted is None or (wanted[0].trial_cost_usd or 0.0) > CONFIRMATION_FRACTION * best_cost.expected:
            return None
        return wanted

    def wanted(
        self, config: TrialConfig, why: str, purpose: Purpose, usd_left: float | None
    ) -> Wanted | None:
        """A trial for a reason of its own; None where it cannot be paid for or its devices left."""
        candidate = self._known.candidate(config, purpose)
        if candidate is None or not is_affordable(candidate, usd_left):
            return None
        choice = Choice(
            config=config, expected_saving=None, trial_cost_usd=candidate.trial_cost_usd, reason=why
        )
        return choice, candidate, purpose
