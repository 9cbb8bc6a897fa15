"""What a study holds, as values: made from the attributes that the store writes, whoever read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.codec import from_json
from planner.errors import PlannerError
from planner.plans.space import SPACE_VERSION, Exclusion
from planner.target import Target
from trials.profile import WorkloadProfile
from trials.trial import Failure, Measurement, Outcome, Workload

SCHEMA_VERSION = 1

CONFIG = "config"
MEASUREMENT = "measurement"
FAILURE = "failure"
COST = "cost_usd"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTrial:
    """A finished trial as the study holds it."""

    number: int
    outcome: Outcome
    cost_usd: float | None  # None where the hardware has no price


class SavedStudy:
    """One workload's measurements as they were read."""

    def __init__(
        self,
        name: str,
        attributes: Mapping[str, Any],
        storage_url: str,
        trials: Sequence[SavedTrial] | None = None,
    ) -> None:
        self.name = name
        self.storage_url = storage_url
        self._attributes = attributes
        self._trials = tuple(trials or ())

    @property
    def workload(self) -> Workload:
        """The model file that was measured."""
        return from_json(self._attributes["workload"], Workload, where=f"study {self.name}")

    def attribute(self, key: str) -> Any:
        """What is saved under ``key``; None where nothing is."""
        return self._attributes.get(key)

    def _text(self, key: str) -> str:
        if key not in self._attributes:
            raise PlannerError(
                f"study {self.name} has nothing yet: its sweep ended before the first trial; "
                f"run `planner sweep {self.workload.path}`"
            )
        return str(self._attributes[key])

    @property
    def profile(self) -> WorkloadProfile:
        """What the check found."""
        return from_json(self._text("profile"), WorkloadProfile, where=f"study {self.name}")

    @property
    def target(self) -> Target:
        """The target of the last sweep; `planner report` may ask for another."""
        return from_json(self._text("target"), Target, where=f"study {self.name}")

    @property
    def notes(self) -> tuple[str, ...]:
        """What the last sweep had to say about the cluster."""
        return tuple(self._attributes.get("notes", ()))

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """What the last sweep did not try, and why."""
        texts = self._attributes.get("exclusions", ())
        return tuple(from_json(one, Exclusion, where=f"study {self.name}") for one in texts)

    @property
    def stopped_because(self) -> str | None:
        """Why the last sweep ended; None while it runs or after it was killed."""
        reason = self._attributes.get("stopped_because")
        return str(reason) if reason else None

    def trials(self) -> tuple[SavedTrial, ...]:
        """Every finished trial, in order."""
        return self._trials


def saved_trial(number: int, attributes: Mapping[str, Any], study_name: str) -> SavedTrial | None:
    """A trial from its attributes; None where it has no outcome yet."""
    where = f"study {study_name}, trial {number}"
    if MEASUREMENT in attributes:
        outcome: Outcome = from_json(attributes[MEASUREMENT], Measurement, where=where)
    elif FAILURE in attributes:
        outcome = from_json(attributes[FAILURE], Failure, where=where)
    else:
        return None
    return SavedTrial(number=number, outcome=outcome, cost_usd=attributes.get(COST))


def check_schema(name: str, attributes: Mapping[str, Any]) -> None:
    """Raises PlannerError when the study is not planner's, or of another version."""
    if "workload" not in attributes:
        raise PlannerError(f"study {name} was not made by planner; choose another --study or --storage")
    for key, known in (("schema_version", SCHEMA_VERSION), ("space_version", SPACE_VERSION)):
        if attributes.get(key) != known:
            raise PlannerError(
                f"study {name} has {key} {attributes.get(key)}, this planner reads {known}; "
                "use the planner version that wrote it, or another --study name"
            )


def spent_on(trials: Sequence[SavedTrial]) -> float | None:
    """Dollars of all trials; None where none of their devices has a price."""
    known = [one.cost_usd for one in trials if one.cost_usd is not None]
    return sum(known) if known or not trials else None


def found(names: Sequence[str], name_or_prefix: str, where: str) -> str:
    """The one name that is meant. Raises PlannerError naming what there is."""
    matching = [one for one in names if one == name_or_prefix] or [
        one for one in names if one.startswith(name_or_prefix)
    ]
    if len(matching) != 1:
        what = "is ambiguous" if matching else "is not there"
        there = ", ".join(sorted(matching or names)) or "none yet: run `planner sweep model.py` first"
        raise PlannerError(f"study {name_or_prefix} {what} in {where}; there: {there}")
    return matching[0]
