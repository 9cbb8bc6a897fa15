"""What a study holds, as values: made from the attributes that the store writes, whoever read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from planner.codec import from_json
from planner.errors import PlannerError
from planner.modes import PARALLELISMS, PRECISIONS
from planner.plans.space import SPACE_VERSION, Exclusion
from planner.target import Target
from trials.api import Failure, Measurement, Outcome, TrialConfig, Workload, WorkloadProfile

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a study's trials say to this planner, and in words what they do not."""

    trials: tuple[SavedTrial, ...]
    notes: tuple[str, ...] = ()


Row = tuple[int, Mapping[str, Any]]  # a trial's number and its attributes


class SavedStudy:
    """One workload's measurements as they were read."""

    def __init__(
        self, name: str, attributes: Mapping[str, Any], storage_url: str, rows: Sequence[Row] = ()
    ) -> None:
        self.name = name
        self.storage_url = storage_url
        self._attributes = attributes
        self._rows = rows

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
        """What the last sweep had to say about the cluster, and what of the study cannot be read."""
        return (*self._attributes.get("notes", ()), *self._reading().notes)

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
        return self._reading().trials

    def _reading(self) -> Reading:
        return read_trials(self.name, self._attributes, self._rows)


def read_trials(name: str, attributes: Mapping[str, Any], rows: Sequence[Row]) -> Reading:
    """The finished trials, in order, without those that tried what this planner does not know.

    Raises PlannerError where one of its own space cannot be read.
    """
    is_ours = attributes.get("space_version") == SPACE_VERSION
    trials: list[SavedTrial] = []
    unknown: list[str] = []
    for number, values in rows:
        where = f"study {name}, trial {number}"
        try:
            outcome = saved_outcome(values, where=where)
        except PlannerError as error:
            if is_ours:
                raise
            unknown.append(str(error))
            continue
        knobs = "" if outcome is None else _unknown_knobs(outcome.config, values, is_ours=is_ours)
        if knobs:
            unknown.append(f"trial {number}: {knobs}")
        elif outcome is not None:
            trials.append(SavedTrial(number=number, outcome=outcome, cost_usd=values.get(COST)))
    if not unknown:
        return Reading(trials=tuple(trials))
    note = (
        f"study {name} was made by another version of planner: {len(unknown)} of "
        f"{len(trials) + len(unknown)} trials are left out, since this one does not know what they tried "
        f"({'; '.join(unknown)})"
    )
    return Reading(trials=tuple(trials), notes=(note,))


def _unknown_knobs(config: TrialConfig, attributes: Mapping[str, Any], *, is_ours: bool) -> str:
    """What a configuration has that this planner does not know, in words. What is not set changes nothing."""
    found = [f"precision {config.precision}"] if config.precision not in PRECISIONS.names else []
    found += [f"parallelism {config.parallelism}"] if config.parallelism not in PARALLELISMS.names else []
    if not is_ours:
        ours = {field.name for field in fields(TrialConfig)}
        saved = json.loads(attributes.get(MEASUREMENT) or attributes[FAILURE])["config"]
        found += [f"{knob} {value}" for knob, value in saved.items() if knob not in ours and value]
    return ", ".join(found)


def saved_outcome(attributes: Mapping[str, Any], *, where: str) -> Outcome | None:
    """What came of a trial; None before its end. Raises PlannerError naming ``where``."""
    if MEASUREMENT in attributes:
        return from_json(attributes[MEASUREMENT], Measurement, where=where)
    return from_json(attributes[FAILURE], Failure, where=where) if FAILURE in attributes else None


def check_schema(name: str, attributes: Mapping[str, Any], *, is_swept: bool) -> None:
    """Raises PlannerError when the study is not planner's, or of a version that cannot be read, or swept."""
    if "workload" not in attributes:
        raise PlannerError(f"study {name} was not made by planner; choose another --study or --storage")
    needed = {"schema_version": SCHEMA_VERSION} | ({"space_version": SPACE_VERSION} if is_swept else {})
    for key, known in needed.items():
        if attributes.get(key) != known:
            what = "tries" if key == "space_version" else "reads"
            raise PlannerError(
                f"study {name} has {key} {attributes.get(key)}, this planner {what} {known}; "
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
