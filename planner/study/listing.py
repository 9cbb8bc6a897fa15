"""What a storage holds: a line for each study, and every configuration that was tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import optuna

from planner.study.saved import CONFIG
from planner.study.storage import open_storage, storage_errors
from planner.study.store import Study
from trials.api import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """A line of `planner studies`."""

    name: str
    workload_path: str
    trial_count: int
    measurement_count: int
    last_trial_at: str | None  # ISO 8601, local time


def summaries(storage_url: str) -> tuple[StudySummary, ...]:
    """Every study of the storage."""
    storage = open_storage(storage_url, is_created=False)
    with storage_errors(storage_url):
        studies = [
            optuna.load_study(study_name=one.study_name, storage=storage) for one in storage.get_all_studies()
        ]
        ours = [one for one in studies if "workload" in one.user_attrs]
        return tuple(_summary(Study(one, storage_url)) for one in ours)


def study_names(storage_url: str) -> list[str]:
    """The name of every study of the storage, those of others included."""
    storage = open_storage(storage_url, is_created=True)
    with storage_errors(storage_url):
        return [one.study_name for one in storage.get_all_studies()]


def trial_configs(storage_url: str) -> Iterator[tuple[str, str]]:
    """Name of study and configuration, as it was saved, of every trial of the storage."""
    storage = open_storage(storage_url, is_created=False)
    with storage_errors(storage_url):
        for study in storage.get_all_studies():
            for trial in storage.get_all_trials(
                storage.get_study_id_from_name(study.study_name), deepcopy=False
            ):
                if CONFIG in trial.user_attrs:
                    yield study.study_name, trial.user_attrs[CONFIG]


def _summary(study: Study) -> StudySummary:
    trials = study.trials()
    ends = [
        one.datetime_complete
        for one in study.optuna_study.get_trials(deepcopy=False)
        if one.datetime_complete is not None
    ]
    return StudySummary(
        name=study.name,
        workload_path=study.workload.path,
        trial_count=len(trials),
        measurement_count=sum(isinstance(one.outcome, Measurement) for one in trials),
        last_trial_at=max(ends).isoformat(timespec="seconds") if ends else None,
    )
