"""What leaves the user's machine with `planner sweep --submit`, and what comes home, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.__main__ import run
from planner.exits import Exit
from planner.study.listing import study_names
from planner.study.storage import sqlite_url
from planner.study.store import load_study, open_study
from tests.builders import make_config, make_measurement, make_workload
from tests.planner.dashboard import JOB, Dashboard, serving
from tests.planner.study.test_store import name, put, url
from trials.model_file.source import hash_workload

__all__ = ["name", "url"]  # fixtures
MODEL = "import parts\ndef model(): ...\ndef batch(size): ...\n"


class Client:
    """A person with a model file in a directory of its own."""

    def __init__(self, folder: Path, dashboard: Dashboard) -> None:
        self.folder, self.dashboard = folder, dashboard
        (folder / "tiny.py").write_text(MODEL)
        (folder / "parts.py").write_text("WIDTH = 4\n")
        self.workload = hash_workload(folder / "tiny.py")

    def submit(self, storage: str, *flags: str) -> int:
        model, out = str(self.folder / "tiny.py"), str(self.folder.parent / "report")
        return self.run(
            "sweep", model, "--budget", "9", "--submit", "--storage", storage, "--out", out, *flags
        )

    def run(self, *arguments: str) -> int:
        return run([*arguments, "--address", self.dashboard.address])


def one_trial(folder: Path) -> None:
    """What the job does: a trial on the study that was sent."""
    sent = sqlite_url(folder / "study.db")
    put(open_study(sent, hash_workload(folder / "tiny.py"), *study_names(sent)), make_measurement(), 1.0)
    (folder / "planner-report").mkdir()
    (folder / "planner-report" / "report.json").write_text("{}")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    for folder in ("there", "project"):
        (tmp_path / folder).mkdir()
    with serving(Dashboard(tmp_path / "there", one_trial)) as dashboard:
        yield Client(tmp_path / "project", dashboard)


def test_the_job_gets_its_study_and_no_word_of_the_storage(
    client: Client, url: str, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    open_study(url, make_workload(), "somebody-elses-" + name)
    put(
        open_study(url, client.workload, name),
        make_measurement(make_config(micro_batch_size=2, accumulation=16)),
    )

    assert client.submit(url, "--study", name) == Exit.PLAN

    (request,) = client.dashboard.requests
    assert f"--study {name}" in request
    for told in (request, *map(str, client.dashboard.files.values())):
        assert "somebody-elses" not in told
        assert url not in told
        assert "planner:planner@" not in told
    said = "".join(capfd.readouterr())
    assert f"study {name}: 1 trial(s) of the job added to" in said
    assert "planner:planner@" not in said
    assert [one.outcome for one in load_study(url, name).trials()][1:] == [make_measurement()]
    assert (client.folder.parent / "report" / "report.json").exists()


def test_a_client_that_comes_back_brings_the_study_to_where_it_wants_it(
    client: Client, tmp_path: Path
) -> None:
    assert client.submit(sqlite_url(tmp_path / "first.db"), "--study", "mine") == Exit.PLAN
    again = ("--out", str(tmp_path / "again"), "--storage", sqlite_url(tmp_path / "other.db"))
    assert client.run("job", JOB, *again) == Exit.PLAN
    assert load_study(sqlite_url(tmp_path / "other.db"), "mine").workload == client.workload


def test_studies_and_report_beside_the_model_file_stay(client: Client) -> None:
    storage = sqlite_url(client.folder / "mine.db")
    open_study(storage, make_workload(), "somebody-elses")
    (client.folder / "report").mkdir()
    (client.folder / "report" / "report.json").write_text("of an earlier sweep")
    assert client.submit(storage, "--study", "mine", "--out", str(client.folder / "report")) == Exit.PLAN
    arrived = {name for name in client.dashboard.files if not name.startswith("planner-report")}
    assert arrived == {"tiny.py", "parts.py", "study.db"}
