"""A job on a cluster started by ``ray start`` with a dashboard and without authentication."""

import json
from pathlib import Path

import pytest

from tests.trials.clusters import OPEN, free_port, started
from tests.trials.test_cluster import drive
from trials.cluster.submit import Job, follow, submit
from trials.errors import TrialsError
from trials.model_file.source import hash_workload

MODEL = Path(__file__).parent / "shipped" / "model.py"


@pytest.fixture(scope="module")
def head():
    with started(OPEN, has_dashboard=True) as head:
        yield head


def run_job(head, argv, into, **options):
    lines = []
    job = submit(head.dashboard, argv, hash_workload(MODEL), module="json.tool", **options)
    return follow(job, into=into, on_line=lines.append), lines, job


@pytest.mark.ray
@pytest.mark.slow
def test_a_job_runs_beside_the_model_and_sends_its_results_back(head, tmp_path):
    code, lines, job = run_job(head, ["data/width.txt", "out.json"], tmp_path, fetch=["out.json"])
    assert (code, lines, job.notes) == (0, [], ())
    assert json.loads((tmp_path / "out.json").read_text()) == 5

    again = Job(address=job.address, job_id=job.job_id)  # by a client that left meanwhile
    assert follow(again, into=tmp_path / "again", on_line=lines.append) == 0
    assert (tmp_path / "again" / "out.json").exists()


@pytest.mark.ray
@pytest.mark.slow
def test_a_file_that_is_sent_along_comes_back_changed_and_a_failure_has_its_code(head, tmp_path):
    study = tmp_path / "study.json"
    study.write_text('{"trials":2}')
    sent = {"study.json": study, "absent.json": tmp_path / "absent.json"}
    code, _, _ = run_job(
        head, ["--compact", "study.json", "study.json"], tmp_path / "back", send=sent, fetch=["study.json"]
    )
    assert code == 0
    assert (tmp_path / "back" / "study.json").read_text() == '{"trials":2}\n'
    code, lines, _ = run_job(head, ["absent.json"], tmp_path)
    assert code == 2
    assert "No such file or directory: 'absent.json'" in lines[-1]


@pytest.mark.ray
@pytest.mark.slow
def test_a_python_without_ray_is_refused_with_a_word(head, tmp_path):
    code, lines, _ = run_job(head, [], tmp_path, python="/nowhere/python")
    assert code == 127
    assert any("/nowhere/python" in line for line in lines)


@pytest.mark.ray
@pytest.mark.slow
def test_the_same_cluster_is_attached_to_without_token(head, tmp_path):
    assert drive(head.address, OPEN, tmp_path) == {"nodes": 1, "is_embedded": False, "notes": []}


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://head:10001", "a job is submitted to the dashboard, http://HEAD:8265"),
        ("ftp://head", "give the address of the dashboard"),
        (f"127.0.0.1:{free_port()}", "nothing answers there"),
    ],
    ids=["a Ray client's", "no scheme of ours", "a port that is free"],
)
def test_addresses_without_a_dashboard_are_refused(address, words):
    with pytest.raises(TrialsError) as caught:
        submit(address, [], hash_workload(MODEL))
    assert words in str(caught.value)
