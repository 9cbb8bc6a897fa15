"""One study of a storage taken to another, and what came of it there brought home."""

import sqlite3
from pathlib import Path

import pytest

from planner.errors import PlannerError
from planner.search.params import distributions, params_of
from planner.study.listing import summaries
from planner.study.storage import sqlite_url
from planner.study.store import Study, load_study, open_study
from planner.study.transfer import bring_home, take_along
from tests.builders import (
    make_config,
    make_failure,
    make_gpu,
    make_measurement,
    make_profile,
    make_target,
    make_workload,
)
from tests.planner.study.test_store import GPUS, name, put, url
from trials.trial import TrialConfig

__all__ = ["name", "url"]  # fixtures


def of_micro_batch(size: int) -> TrialConfig:
    return make_config(micro_batch_size=size, accumulation=32 // size)


def outcomes(study: Study) -> list[object]:
    return [one.outcome for one in study.trials()]


def test_only_the_study_that_is_swept_goes_along(url: str, name: str, tmp_path: Path) -> None:
    mine = open_study(url, make_workload(), name)
    put(mine, make_measurement())
    put(open_study(url, make_workload(path="/private/secret.py"), f"{name}-other"), make_measurement())
    sent = tmp_path / "sent.db"
    take_along(url, make_workload(), name, sent)
    assert [one.name for one in summaries(sqlite_url(sent))] == [name]
    assert outcomes(load_study(sqlite_url(sent), name)) == outcomes(mine)
    assert b"secret.py" not in sent.read_bytes()


def test_what_came_of_it_is_added_to_what_is_at_home(url: str, name: str, tmp_path: Path) -> None:
    home = open_study(url, make_workload(), name)
    first, there, meanwhile = (make_measurement(of_micro_batch(size)) for size in (8, 16, 4))
    failed = make_failure(of_micro_batch(32))
    put(home, first, 1.0)
    sent = tmp_path / "sent.db"
    take_along(url, make_workload(), name, sent)
    away = open_study(sqlite_url(sent), make_workload(path="/tmp/job/model.py"), name)
    away.remember(profile=make_profile(), target=make_target(), notes=("a note",), exclusions=())
    put(away, there, 2.0)
    put(away, failed)
    put(away, failed)  # twice the same
    away.remember_end("it was enough")
    put(home, meanwhile, 3.0)  # by another sweep

    assert bring_home(sent, url) == (name, 3)
    assert outcomes(load_study(url, name)) == [first, meanwhile, there, failed, failed]
    assert bring_home(sent, url) == (name, 0)  # asked for again

    again = load_study(url, name)
    assert [one.cost_usd for one in again.trials()] == [0.02] * 5
    assert [one.state.name for one in again.optuna_study.trials] == ["COMPLETE"] * 3 + ["PRUNED"] * 2
    assert (again.profile, again.notes, again.stopped_because) == (
        make_profile(),
        ("a note",),
        "it was enough",
    )
    assert again.workload == make_workload()  # with the path at home


def test_a_study_that_is_new_at_home_is_made_there(url: str, name: str, tmp_path: Path) -> None:
    sent = tmp_path / "sent.db"
    take_along(url, make_workload(), name, sent)
    put(open_study(sqlite_url(sent), make_workload(), name), make_measurement(), 1.0)
    assert bring_home(sent, url) == (name, 1)
    assert outcomes(load_study(url, name)) == [make_measurement()]


def test_a_trial_that_was_cut_off_there_comes_only_with_its_outcome(
    url: str, name: str, tmp_path: Path
) -> None:
    sent = tmp_path / "sent.db"
    take_along(url, make_workload(), name, sent)
    away = open_study(sqlite_url(sent), make_workload(), name)
    done = make_measurement()
    for outcome in (done, None):
        optuna_trial = away.ask(params_of(make_config()), distributions(GPUS))
        away.start(optuna_trial, make_config())
        if outcome is not None:
            away.save(optuna_trial, outcome, None, None)
    assert bring_home(sent, url) == (name, 1)
    assert open_study(url, make_workload(), name).leftovers() == ((0, done),)


def test_another_text_under_the_same_name_is_refused_before_it_is_sent(
    url: str, name: str, tmp_path: Path
) -> None:
    open_study(url, make_workload(), name)
    with pytest.raises(PlannerError, match="never mixed"):
        take_along(url, make_workload(sha256="f" * 64), name, tmp_path / "sent.db")


def test_trials_of_another_catalog_are_added_where_the_study_knows_their_values(
    url: str, name: str, tmp_path: Path
) -> None:
    sent = tmp_path / "sent.db"
    take_along(url, make_workload(), name, sent)
    put(open_study(url, make_workload(), name), make_measurement(), 1.0)
    away = open_study(sqlite_url(sent), make_workload(), name)
    grown = distributions({**GPUS, "T4-16GB": make_gpu("T4-16GB")})
    for config in (of_micro_batch(16), make_config("T4-16GB")):
        optuna_trial = away.ask(params_of(config), grown)
        away.save(optuna_trial, make_measurement(config), None, None)
    with pytest.raises(PlannerError, match=r"1 of 2 trials .* has no gpu T4-16GB;"):
        bring_home(sent, url)
    assert len(load_study(url, name).trials()) == 2


def test_a_file_without_a_study_brings_nothing(url: str, tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(PlannerError, match="no study"):
        bring_home(tmp_path / "empty.db", url)
