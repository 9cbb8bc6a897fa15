"""A sweep on a real two-node cluster: attached to it, and submitted as a job and come back to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from planner.cli import app
from planner.commands.submit import typed_again
from planner.exits import Exit
from planner.study.store import load_study
from tests.planner.test_end_to_end import MODEL
from tests.trials.clusters import OPEN, Head, started
from trials.cluster.submit import Job, stop
from trials.measurement import Measurement


def typed(*arguments: str) -> tuple[list[str], dict[str, Path]]:
    command = typer.main.get_command(app).commands["sweep"]  # type: ignore[attr-defined]
    return typed_again(command.make_context("sweep", ["model.py", *arguments]))


def test_flags_reach_the_job_as_they_were_typed_and_files_go_along(tmp_path: Path) -> None:
    catalog = tmp_path / "mine.csv"
    flags = ["--budget", "5.0", "--gpu", "A", "--gpu", "B", "--no-spot", "--compile", "--deadline", "36h"]
    flags += ["--setup-minutes", "3.0", "--checkpoint-dir", "/shared"]
    elsewhere = ["--submit", "--json", "--address", "x", "--storage", "y", "--out", "z"]
    argv, files = typed(*flags, *elsewhere, "--catalog", str(catalog))
    assert sorted(argv) == sorted([*flags, "--catalog", "given-catalog.csv"])
    assert files == {"given-catalog.csv": catalog}
    assert typed() == ([], {})


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with started(OPEN, node_count=2, has_dashboard=True) as head:
        yield head


class Client:
    """A person with a model file, a study file and a cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tiny.py").write_text(MODEL)
        self.url = f"sqlite:///{folder / 'study.db'}"

        self.environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "planner", *arguments, "--storage", self.url, "--out", "report"]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def measured(self) -> list[Measurement]:
        found = [one.outcome for one in load_study(self.url, "tiny").trials()]
        return [one for one in found if isinstance(one, Measurement)]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


@pytest.mark.ray
@pytest.mark.slow
def test_a_sweep_attaches_to_a_two_node_cluster(head: Head, client: Client) -> None:
    done = client.run("sweep", "tiny.py", "--budget", "50", "--max-trials", "2", "--address", head.address)
    assert done.returncode == 0, done.stderr
    assert len(client.measured()) == 2
    assert (client.folder / "report" / "report.html").exists()


@pytest.mark.ray
@pytest.mark.slow
def test_a_submitted_sweep_brings_study_and_report_home_again_and_again(head: Head, client: Client) -> None:
    assert head.dashboard
    at = ("--address", head.dashboard)
    done = client.run("sweep", "tiny.py", "--budget", "50", "--max-trials", "2", "--submit", "--json", *at)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plans"]
    assert len(client.measured()) == 2

    (client.folder / "study.db").unlink()  # as if the client had left before the job ended
    job_id = done.stderr.partition("submitted as job ")[2].partition(";")[0]
    again = client.run("job", job_id, *at)
    assert again.returncode == 0, again.stderr
    assert len(client.measured()) == 2

    unknown = client.run("job", "raysubmit_unknown", *at)
    assert unknown.returncode == 2
    assert "no job raysubmit_unknown there" in unknown.stderr


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_that_is_stopped_ends_as_on_ctrl_c_and_its_report_comes_home(
    head: Head, client: Client
) -> None:
    assert head.dashboard
    with subprocess.Popen(
        client.command("sweep", "tiny.py", "--budget", "50", "--submit", "--address", head.dashboard),
        cwd=client.folder,
        env=client.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        while "trial 2:" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        job_id = said.partition("submitted as job ")[2].partition(";")[0]
        stop(Job(address=head.dashboard, job_id=job_id))
        said += process.stderr.read()
        assert process.wait() == Exit.TERMINATED, said
    assert "SIGTERM: ending" in said
    assert (client.folder / "report" / "report.html").exists()
    assert "of the job added to" in said
