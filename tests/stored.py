"""Studies on disk, as a sweep leaves them."""

from __future__ import annotations

from catalogs.gpus import load_gpus
from planner.search.params import distributions, params_of
from planner.study.store import Study, open_study
from planner.target import Target
from tests.builders import make_profile
from trials.measurement import Outcome
from trials.profile import WorkloadProfile
from trials.trial import Workload

GPUS = load_gpus()


def store_study(
    url: str,
    name: str,
    workload: Workload,
    target: Target,
    *outcomes: Outcome,
    profile: WorkloadProfile | None = None,
) -> Study:
    """A study of ``workload`` with a finished trial for each outcome, a second and a cent apart."""
    study = open_study(url, workload, name)
    study.remember(profile=profile or make_profile(), target=target, notes=(), exclusions=())
    for outcome in outcomes:
        store_trial(study, outcome)
    return study


def store_trial(study: Study, outcome: Outcome) -> None:
    """A finished trial more."""
    optuna_trial = study.ask(params_of(outcome.config), distributions(GPUS))
    study.start(optuna_trial, outcome.config)
    study.save(optuna_trial, outcome, 0.01, None)
    study.close(optuna_trial.number, outcome, 1.0)
