"""The best configuration for a piece of hardware, and whether it was measured there.

On hardware where something was measured, only measured configurations compete, unless another one's high
end beats the best measured time: a prediction must win even at its worst. Elsewhere the least expected time
wins among what fits by the high end of peak memory. Of configurations that cannot be told apart the
simplest is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from planner.estimate.values import Basis, Estimate
from planner.modes.chosen import plainness
from planner.plans.candidates import Candidates, Miss, NoConfig
from planner.plans.plan_hardware import PlanHardware
from planner.plans.ties import is_tied_here, preference
from trials.api import TrialConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenConfig:
    """A configuration on a place, and those that cannot be told apart from it."""

    config: TrialConfig
    step_time_s: Estimate
    peak_memory_bytes: Estimate
    memory_bytes: int  # that one worker has
    tied: tuple[TrialConfig, ...]
    host_fraction: float | None = None  # of the step, that no faster GPU shortens; None where unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChooser:
    """Chooses among ``candidates``; remembers each place."""

    candidates: Candidates
    _choices: dict[PlanHardware, ChosenConfig | NoConfig] = field(default_factory=dict)

    def choose(self, place: PlanHardware) -> ChosenConfig | NoConfig:
        """The best configuration, or the reason why there is none."""
        if place not in self._choices:
            self._choices[place] = self._choose(place)
        return self._choices[place]

    def _choose(self, place: PlanHardware) -> ChosenConfig | NoConfig:
        candidates = self.candidates.of(place)
        if isinstance(candidates, NoConfig):
            return candidates
        estimator = self.candidates.estimator
        times = [
            (candidate, time)
            for candidate in candidates
            if (time := estimator.step_time_s(candidate[0], place.hardware)) is not None
        ]
        if not times:
            return NoConfig(miss=Miss.SPEED_UNKNOWN)
        self.candidates.learn(place, times)
        best = _best(
            [
                ChosenConfig(
                    config=config,
                    step_time_s=time,
                    peak_memory_bytes=peak,
                    memory_bytes=self.candidates.usable_memory_bytes(place, config),
                    tied=(),
                )
                for (config, peak), time in times
            ],
            self.candidates.ruled_out.measured,
        )
        return replace(best, host_fraction=estimator.host_fraction(best.config, place.hardware))


def _best(choices: list[ChosenConfig], tried: frozenset[TrialConfig]) -> ChosenConfig:
    """``tried`` have a trial; where it was on this hardware, the time is not a prediction."""
    measured = [
        one for one in choices if one.config in tried and one.step_time_s.basis is not Basis.PREDICTED
    ]
    if measured:
        to_beat_s = min(one.step_time_s.expected for one in measured)
        contenders = [one for one in choices if one in measured or one.step_time_s.high < to_beat_s]
    else:
        contenders = choices
    fastest = min(contenders, key=lambda one: (one.step_time_s.expected, plainness(one.config)))
    tied = [one for one in contenders if is_tied_here(one.step_time_s, fastest.step_time_s)]
    simplest = min(tied, key=lambda one: preference(one.config, one.step_time_s))
    return replace(simplest, tied=tuple(one.config for one in tied if one is not simplest))
