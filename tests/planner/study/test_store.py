"""The study on SQLite; on PostgreSQL where PLANNER_TEST_POSTGRES_URL names a database."""

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import optuna
import pytest

from planner.codec import from_json, to_json
from planner.errors import PlannerError
from planner.plans.space import Exclusion
from planner.search.params import distributions, params_of
from planner.study.listing import summaries, trial_configs
from planner.study.reading import read_peers, read_study
from planner.study.storage import open_storage, sqlite_url
from planner.study.store import Study, load_study, open_study
from tests.builders import (
    make_config,
    make_failure,
    make_gpu,
    make_measurement,
    make_profile,
    make_target,
    make_workload,
)
from trials.measurement import Outcome
from trials.trial import FailureKind, TrialConfig

EXCLUDED = (Exclusion(knob="tf32", reason="a CPU has no TF32 units"),)
GPUS = {"L4-24GB": make_gpu()}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'study.db'}"
        return
    server = os.environ.get("PLANNER_TEST_POSTGRES_URL")
    if not server:
        pytest.skip("PLANNER_TEST_POSTGRES_URL names no database")
    yield server


@pytest.fixture
def name() -> str:
    return f"study-{uuid.uuid4().hex[:12]}"


def put(study: Study, outcome: Outcome, value: float | None = None) -> None:
    optuna_trial = study.ask(params_of(outcome.config), distributions(GPUS))
    study.start(optuna_trial, outcome.config)
    study.save(optuna_trial, outcome, 0.02, None)
    study.close(optuna_trial.number, outcome, value)


def test_a_newer_catalog_keeps_the_study_usable_but_for_what_it_adds(url: str, name: str) -> None:
    study = open_study(url, make_workload(), name)
    first, second = make_measurement(), make_measurement(make_config(micro_batch_size=32, accumulation=1))
    put(study, first)
    grown = distributions({**GPUS, "T4-16GB": make_gpu("T4-16GB")})
    optuna_trial = study.ask(params_of(second.config), grown)
    study.save(optuna_trial, second, 0.02, None)
    study.close(optuna_trial.number, second, None)
    assert [one.outcome for one in study.trials()] == [first, second]
    with pytest.raises(PlannerError, match="a planner that has no gpu T4-16GB;"):
        study.ask(params_of(make_config("T4-16GB")), grown)


def test_the_dimension_that_a_newer_planner_has_widened_is_named(url: str, name: str) -> None:
    study = open_study(url, make_workload(), name)
    older = distributions(GPUS) | {"precision": optuna.distributions.CategoricalDistribution(["fp32"])}
    study.ask(params_of(make_config(precision="fp32")), older)
    with pytest.raises(PlannerError, match="that has no precision bf16;"):
        study.ask(params_of(make_config(precision="bf16")), distributions(GPUS))


def test_another_study_on_two_devices_is_a_peer(url: str, name: str) -> None:
    mine, other = open_study(url, make_workload(), name), open_study(url, make_workload(), f"{name}-other")
    other.remember(profile=make_profile(), target=make_target(), notes=(), exclusions=())
    both = [make_measurement(), make_measurement(make_config("T4-16GB"))]
    for outcome in both:
        optuna_trial = other.ask(
            params_of(outcome.config), distributions({**GPUS, "T4-16GB": make_gpu("T4-16GB")})
        )
        other.start(optuna_trial, outcome.config)
        other.save(optuna_trial, outcome, None, None)

    peer = read_peers(mine)[other.name]

    assert list(peer.measurements) == both
    assert peer.profile == make_profile()
    by_optuna = [
        from_json(text, TrialConfig, where="") for study, text in trial_configs(url) if study == other.name
    ]
    assert by_optuna == [one.config for one in both]


def test_what_is_saved_is_read_back_by_another_process_equal(url: str, name: str) -> None:
    study = open_study(url, make_workload(), name)
    study.remember(profile=make_profile(), target=make_target(), notes=("a note",), exclusions=EXCLUDED)
    measured = make_measurement(half_width_fraction=0.0123)
    failed = make_failure(make_config(micro_batch_size=32, accumulation=1))
    put(study, measured, 3.5)
    put(study, failed)
    again = load_study(url, name)
    assert [one.outcome for one in again.trials()] == [measured, failed]
    assert [one.cost_usd for one in again.trials()] == [0.02, 0.02]
    assert (again.profile, again.target) == (make_profile(), make_target())
    assert (again.notes, again.exclusions) == (("a note",), EXCLUDED)
    assert again.workload == make_workload()


def test_a_reader_that_needs_no_optuna_reads_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a study.db'}"
    study = open_study(url, make_workload(), "gpt")
    study.remember(profile=make_profile(), target=make_target(), notes=("a note",), exclusions=EXCLUDED)
    for size in (8, 2):
        put(study, make_measurement(make_config(micro_batch_size=size, accumulation=32 // size)), 3.5)
    put(study, make_failure(make_config(micro_batch_size=32, accumulation=1)))
    study.start(study.ask(params_of(make_config()), distributions(GPUS)), make_config())  # has no outcome yet
    study.remember_end("it was enough")
    script = (
        "import sys; from planner.study.reading import read_study; study = read_study(*sys.argv[1:]); "
        "print([study.trials(), study.workload, study.profile, study.target, study.notes, study.exclusions, "
        "study.stopped_because], 'optuna' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, url, "gp"], capture_output=True, text=True, check=True
    )
    again = load_study(url, "gpt")
    known = [again.trials(), again.workload, again.profile, again.target, again.notes, again.exclusions]
    assert done.stdout.strip() == f"{[*known, 'it was enough']} False"


def test_a_table_layout_that_is_not_known_is_left_to_optuna(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    open_study(f"sqlite:///{path}", make_workload(), "gpt")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE alembic_version SET version_num = 'v9.0.0.a'")
        database.commit()
    with pytest.raises(PlannerError, match="updating optuna"):
        read_study(f"sqlite:///{path}", "gpt")


def test_optuna_sees_a_value_a_pruned_out_of_memory_and_no_invented_number(url: str, name: str) -> None:
    study = open_study(url, make_workload(), name)
    put(study, make_measurement(), 3.5)
    put(study, make_failure(make_config(micro_batch_size=32, accumulation=1)))
    put(study, make_failure(make_config(techniques=("compile",)), kind=FailureKind.UNSUPPORTED))
    plain = optuna.load_study(study_name=name, storage=url)
    assert [one.state.name for one in plain.trials] == ["COMPLETE", "PRUNED", "FAIL"]
    assert plain.best_value == 3.5
    assert plain.best_params["micro_batch_size"] == 8
    assert [one.values for one in plain.trials[1:]] == [None, None]


def test_a_trial_that_was_cut_off_is_a_leftover_with_or_without_its_outcome(url: str, name: str) -> None:
    study = open_study(url, make_workload(), name)
    done, cut = make_measurement(), make_config(techniques=("compile",))
    first = study.ask(params_of(done.config), distributions(GPUS))
    study.start(first, done.config)
    study.save(first, done, None, None)
    second = study.ask(params_of(cut), distributions(GPUS))
    study.start(second, cut)
    again = open_study(url, make_workload(), name)
    assert again.leftovers() == ((0, done), (1, None))
    assert [one.outcome for one in again.trials()] == [done]


def test_a_study_of_other_file_contents_is_refused(url: str, name: str) -> None:
    open_study(url, make_workload(), name)
    with pytest.raises(PlannerError, match="never mixed"):
        open_study(url, make_workload(sha256="f" * 64), name)


def test_another_schema_version_is_refused(url: str, name: str) -> None:
    open_study(url, make_workload(), name).optuna_study.set_user_attr("schema_version", 99)
    with pytest.raises(PlannerError, match="schema_version 99"):
        open_study(url, make_workload(), name)


@pytest.mark.parametrize("read", [load_study, read_study])
def test_a_study_of_another_space_is_read_but_for_what_is_unknown(url: str, name: str, read) -> None:
    study = open_study(url, make_workload(), name)
    study.remember(profile=make_profile(), target=make_target(), notes=("a note",), exclusions=EXCLUDED)
    study.optuna_study.set_user_attr("space_version", 99)
    known = to_json(make_measurement(make_config(precision="bf16")))
    newer = (
        known,
        known.replace('"gpu_count"', '"tensor_count":null,"gpu_count"', 1),  # a knob that was not turned
        known.replace('"bf16"', '"int3"', 1),
        known.replace('"gpu_count"', '"tensor_count":2,"gpu_count"', 1),
    )
    assert len(set(newer)) == 4
    for text in newer:
        study.ask(params_of(make_config()), distributions(GPUS)).set_user_attr("measurement", text)

    again = read(url, name)

    assert [one.number for one in again.trials()] == [0, 1]
    assert again.profile == make_profile()
    note = again.notes[-1]
    assert "2 of 4 trials are left out" in note
    assert "precision int3" in note
    assert "tensor_count 2" in note
    with pytest.raises(PlannerError, match="space_version 99"):
        open_study(url, make_workload(), name)  # to be swept


def test_a_study_of_somebody_else_is_refused(url: str, name: str) -> None:
    optuna.create_study(study_name=name, storage=url).set_user_attr("mine", 1)
    with pytest.raises(PlannerError, match="was not made by planner"):
        load_study(url, name)


def test_two_sweeps_on_one_study_are_refused_while_the_first_lives(url: str, name: str) -> None:
    study = open_study(url, make_workload(), name)
    holder = f"holder:{socket.gethostname()}"
    study.optuna_study.set_user_attr(holder, {"pid": os.getppid(), "seen_at_s": time.time()})
    with (
        pytest.raises(PlannerError, match=f"process id {os.getppid()}"),
        open_study(url, make_workload(), name).held(),
    ):
        pass
    study.optuna_study.set_user_attr(holder, {"pid": 2**22 + 1, "seen_at_s": time.time()})
    with open_study(url, make_workload(), name).held():
        assert study.optuna_study.user_attrs[holder]["pid"] == os.getpid()
    assert study.optuna_study.user_attrs[holder] is None


def test_a_prefix_is_enough_and_an_ambiguous_one_names_the_studies(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    for name in ("gpt-1111", "gpt-2222", "vit-3333"):
        open_study(url, make_workload(), name)
    assert load_study(url, "vit").name == "vit-3333"
    with pytest.raises(PlannerError, match="gpt-1111, gpt-2222"):
        load_study(url, "gpt")
    with pytest.raises(PlannerError, match="vit-3333"):
        load_study(url, "bert")
    assert [one.name for one in summaries(url)] == ["gpt-1111", "gpt-2222", "vit-3333"]


def test_a_storage_that_cannot_be_used_names_itself_and_the_remedy(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("this is no database, and long enough to be read as one" * 20)
    cases = {
        f"sqlite:///{text}": "the file is something else",
        f"sqlite:///{tmp_path}/notes.txt/x.db": "make it writable",
        "nonsense": "sqlite:///study.db",
        "postgresql://u:secret@127.0.0.1:1/db": "check that the database answers",
    }
    for bad, message in cases.items():
        with pytest.raises(PlannerError, match=message) as caught:
            open_study(bad, make_workload())
        assert "secret" not in str(caught.value)
    with pytest.raises(PlannerError, match="planner sweep"):
        load_study(f"sqlite:///{tmp_path / 'none.db'}", "gpt")


def test_a_full_disk_is_said_and_what_was_saved_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    url = f"sqlite:///{path}"
    study = open_study(url, make_workload(), "gpt")
    put(study, make_measurement(), 1.0)
    import sqlalchemy

    engine = study.optuna_study._storage._backend.engine

    @sqlalchemy.event.listens_for(engine, "connect")
    def no_more_pages(connection, record):  # SQLite's own limit raises what a full disk raises
        connection.execute(f"pragma max_page_count = {path.stat().st_size // 4096}")

    engine.dispose()

    def fill() -> None:
        for size in (1, 2, 4, 16, 32):
            put(study, make_measurement(make_config(micro_batch_size=size, accumulation=32 // size)), 1.0)

    with pytest.raises(PlannerError, match="full; free some space; every trial saved"):
        fill()
    engine.dispose()
    assert make_measurement() in [one.outcome for one in load_study(url, "gpt").trials()]


def test_processes_that_begin_at_once_share_a_new_storage(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "study.db")
    begin = threading.Barrier(6)

    def opened() -> object:
        begin.wait()
        return open_storage(url, is_created=True)

    with ThreadPoolExecutor(6) as pool:
        assert len([one.result() for one in [pool.submit(opened) for _ in range(6)]]) == 6
