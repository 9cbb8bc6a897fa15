"""The study: one Optuna storage holds everything measured, and is the only source of truth.

The study's attributes hold the workload, its profile and the settings; each optuna_trial's attributes hold
the configuration and the outcome as JSON. So resuming, concurrent readers, the Optuna dashboard and backups
come for free.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from planner.codec import from_json, to_json
from planner.errors import PlannerError
from planner.plans.space import SPACE_VERSION, Exclusion
from planner.redaction import redacted_url
from planner.study.holder import beating, others, this_process
from planner.study.sampler import PlannedSampler
from planner.study.saved import (
    CONFIG,
    COST,
    FAILURE,
    MEASUREMENT,
    SCHEMA_VERSION,
    Reading,
    SavedStudy,
    check_schema,
    found,
    read_trials,
    saved_outcome,
)
from planner.study.sources import SOURCES, Sources, packed, read_sources
from planner.study.storage import open_storage, storage_errors
from planner.target import Target
from trials.api import Failure, FailureKind, Measurement, Outcome, TrialConfig, Workload, WorkloadProfile

_HOLDER = "holder"  # the sweep that runs the trial


def default_study_name(workload: Workload) -> str:
    """The file's name and the first digits of its hash: another text is another study."""
    return f"{Path(workload.path).stem}-{workload.sha256[:8]}"


class Study(SavedStudy):
    """One workload's measurements, open for reading and writing."""

    def __init__(self, study: optuna.Study, storage_url: str) -> None:
        super().__init__(study.study_name, study.user_attrs, storage_url)
        self.optuna_study = study
        self._sampler = PlannedSampler()
        study.sampler = self._sampler

    def remember(
        self,
        *,
        profile: WorkloadProfile,
        target: Target,
        notes: tuple[str, ...],
        exclusions: tuple[Exclusion, ...],
    ) -> None:
        """Keep what this sweep found before its first trial."""
        with storage_errors(self.storage_url):
            self.optuna_study.set_user_attr("profile", to_json(profile))
            self.optuna_study.set_user_attr("target", to_json(target))
            self.optuna_study.set_user_attr("notes", list(notes))
            self.optuna_study.set_user_attr("stopped_because", None)
            self.optuna_study.set_user_attr("exclusions", [to_json(one) for one in exclusions])
            self._attributes = self.optuna_study.user_attrs

    def remember_end(self, reason: str) -> None:
        """Keep why the sweep stopped."""
        with storage_errors(self.storage_url):
            self.optuna_study.set_user_attr("stopped_because", reason)
            self._attributes = self.optuna_study.user_attrs

    def keep_sources(self, sources: Sources | None) -> None:
        """Keep the text that is measured, once; None where it cannot be read here."""
        if sources is not None and self.attribute(SOURCES) is None:
            with storage_errors(self.storage_url):
                self.optuna_study.set_user_attr(SOURCES, packed(sources))
                self._attributes = self.optuna_study.user_attrs

    def _reading(self) -> Reading:
        """As the storage has them now."""
        with storage_errors(self.storage_url):
            frozen = self.optuna_study.get_trials(deepcopy=False)
        return read_trials(self.name, self._attributes, [(one.number, one.user_attrs) for one in frozen])

    def ask(self, params: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]) -> optuna.Trial:
        """A new optuna_trial at ``params``, which the planner has chosen."""
        with storage_errors(self.storage_url):
            kept = self._kept_choices()
            unknown = _unknown(params, kept)
            if unknown:
                raise PlannerError(
                    f"study {self.name} was made with a catalog or by a planner that has no {unknown}; "
                    "give this sweep another --study name"
                )
            dimensions = {name: kept.get(name, one) for name, one in distributions.items()}
            self._sampler.plan(params, dimensions)
            return self.optuna_study.ask(dimensions)

    def add(self, trial: FrozenTrial) -> str:
        """Take over a trial of another storage; what of it this study cannot hold, "" where it was added."""
        with storage_errors(self.storage_url):
            kept = self._kept_choices()
            unknown = _unknown(trial.params, kept)
            if not unknown:
                taken = copy.copy(trial)
                taken.distributions = {name: kept.get(name, one) for name, one in trial.distributions.items()}
                self.optuna_study.add_trial(taken)
        return unknown

    def _kept_choices(self) -> dict[str, CategoricalDistribution]:
        """The categorical dimensions as the study has them: Optuna cannot change their choices."""
        past = self.optuna_study.get_trials(deepcopy=False)
        known = {name: one for trial in past for name, one in trial.distributions.items()}
        return {name: one for name, one in known.items() if isinstance(one, CategoricalDistribution)}

    def start(self, optuna_trial: optuna.Trial, config: TrialConfig) -> None:
        """Write down what is about to be tried, and by whom."""
        with storage_errors(self.storage_url):
            optuna_trial.set_user_attr(_HOLDER, this_process().name)
            optuna_trial.set_user_attr(CONFIG, to_json(config))

    def save(
        self, optuna_trial: optuna.Trial, outcome: Outcome, cost_usd: float | None, violation: float | None
    ) -> None:
        """Keep the outcome before anything is computed from it.

        ``violation`` is the memory constraint: needed over available minus 1, above 0 where it did not fit.
        """
        with storage_errors(self.storage_url):
            if violation is not None:
                optuna_trial.set_constraint("memory", violation)
            optuna_trial.set_user_attr(COST, cost_usd)
            name = MEASUREMENT if isinstance(outcome, Measurement) else FAILURE
            optuna_trial.set_user_attr(name, to_json(outcome))

    def close(self, number: int, outcome: Outcome | None, value: float | None) -> None:
        """Tell Optuna a measurement's value; a trial without one invents none.

        Out of memory is PRUNED, which samplers read as known to be bad; whatever else has no value is FAIL.
        """
        is_out_of_memory = isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY
        with storage_errors(self.storage_url):
            if isinstance(outcome, Measurement) and value is not None:
                self.optuna_study.tell(number, value)
            else:
                self.optuna_study.tell(
                    number, state=TrialState.PRUNED if is_out_of_memory else TrialState.FAIL
                )

    def leftovers(self) -> tuple[tuple[int, Outcome | None], ...]:
        """What a killed sweep left running, by trial number, with the outcome if it was saved."""
        return tuple(
            (one.number, saved_outcome(one.user_attrs, where=f"study {self.name}, trial {one.number}"))
            for one in self._running(is_alive=False)
        )

    def running_elsewhere(self) -> frozenset[TrialConfig]:
        """What a sweep on another host is trying now."""
        running = self._running(is_alive=True)
        texts = [one.user_attrs[CONFIG] for one in running if CONFIG in one.user_attrs]
        return frozenset(from_json(one, TrialConfig, where=f"study {self.name}") for one in texts)

    def _running(self, *, is_alive: bool) -> list[FrozenTrial]:
        """The trials that are under way: those whose sweep still runs, or those whose does not."""
        with storage_errors(self.storage_url):
            running = self.optuna_study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            there = others(self.optuna_study.user_attrs) if running else {}
        # one without a holder has just been asked for, or its sweep was killed between two lines
        return [
            one
            for one in running
            if (one.user_attrs[_HOLDER] in there if _HOLDER in one.user_attrs else bool(there)) == is_alive
        ]

    @contextlib.contextmanager
    def held(self) -> Iterator[Study]:
        """Hold the study for one sweep at a time on this host. Raises PlannerError when another holds it.

        Sweeps on other hosts may work on it at the same time, each on trials of its own.
        """
        with storage_errors(self.storage_url):
            there = others(self.optuna_study.user_attrs)
        here = next((one for one in there.values() if one.host == this_process().host), None)
        if here is not None:
            raise PlannerError(
                f"study {self.name}: a sweep with process id {here.pid} is still running on it; "
                "wait for it, stop it, or give this one another --study name"
            )

        def write(key: str, value: object) -> None:
            with storage_errors(self.storage_url):
                self.optuna_study.set_user_attr(key, value)

        with beating(write, PlannerError):
            yield self


def open_study(storage_url: str, workload: Workload, name: str | None = None) -> Study:
    """The workload's study, made if there is none.

    Raises PlannerError when the storage cannot be used or the study is another workload's.
    """
    name = name or default_study_name(workload)
    storage = open_storage(storage_url, is_created=True)
    with storage_errors(storage_url):
        optuna_study = optuna.create_study(
            study_name=name, storage=storage, direction="minimize", load_if_exists=True
        )
        attributes = optuna_study.user_attrs
        if set(attributes) <= {"schema_version", "space_version"} and not optuna_study.get_trials(
            deepcopy=False
        ):
            optuna_study.set_user_attr("schema_version", SCHEMA_VERSION)
            optuna_study.set_user_attr("space_version", SPACE_VERSION)
            optuna_study.set_user_attr("workload", to_json(workload))
    check_schema(name, optuna_study.user_attrs, is_swept=True)
    study = Study(optuna_study, storage_url)
    if study.workload.sha256 != workload.sha256:
        raise PlannerError(
            f"study {name} holds measurements of {study.workload.path} with other contents "
            f"(hash {study.workload.sha256[:8]}, now {workload.sha256[:8]}); measurements of different files "
            "are never mixed: leave --study out for a new one, or restore the file"
        )
    study.keep_sources(read_sources(workload))
    return study


def load_study(storage_url: str, name_or_prefix: str) -> Study:
    """A study by its name or an unambiguous prefix. Raises PlannerError naming what there is."""
    storage = open_storage(storage_url, is_created=False)
    with storage_errors(storage_url):
        names = [one.study_name for one in storage.get_all_studies()]
    name = found(names, name_or_prefix, redacted_url(storage_url))
    with storage_errors(storage_url):
        optuna_study = optuna.load_study(study_name=name, storage=storage)
    check_schema(name, optuna_study.user_attrs, is_swept=False)
    return Study(optuna_study, storage_url)


def _unknown(params: Mapping[str, Any], kept: Mapping[str, CategoricalDistribution]) -> str:
    """The values that are no choice of the study, in words."""
    known = {name: dimension.choices for name, dimension in kept.items() if name in params}
    return ", ".join(
        f"{name} {params[name]}" for name, choices in known.items() if params[name] not in choices
    )
