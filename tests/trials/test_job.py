"""The way back of a submitted sweep: files through a log."""

import json
import os
import subprocess
import sys
from pathlib import Path

from trials.cluster.job import BEGIN, MARK, pack_lines, unpack_lines

ROOT = Path(__file__).parents[2]


def test_files_and_folders_come_back_as_they_were(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "report").mkdir(parents=True)
    (source / "study.db").write_bytes(bytes(range(256)) * 1000)
    (source / "report" / "index.html").write_text("<p>hello</p>")
    lines = pack_lines(source, ["study.db", "report", "absent"])
    assert lines
    assert all(line.startswith(MARK) and "\n" not in line for line in lines)
    assert unpack_lines(lines, target) == ("report", "study.db")
    assert (target / "study.db").read_bytes() == (source / "study.db").read_bytes()
    assert (target / "report" / "index.html").read_text() == "<p>hello</p>"


def test_nothing_sent_is_nothing_written(tmp_path):
    assert unpack_lines([], tmp_path / "target") == ()
    assert not (tmp_path / "target").exists()


def run_job(path, *arguments):
    """The entry as the cluster runs it, where `path` holds what was sent."""
    return subprocess.run(
        [sys.executable, "-m", "trials.cluster.job", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_module_runs_in_a_copy_and_its_exit_code_counts(tmp_path):
    sent = tmp_path / "planner_workload_x"
    sent.mkdir()
    (sent / "in.json").write_text('{"a": 1}')
    done = run_job(tmp_path, "--fetch", "out.json", "planner_workload_x", "json.tool", "in.json", "out.json")
    begin, *results = done.stdout.splitlines()
    assert (done.returncode, begin) == (0, BEGIN)
    assert unpack_lines(results, tmp_path / "back") == ("out.json",)
    assert json.loads((tmp_path / "back" / "out.json").read_text()) == {"a": 1}
    assert [one.name for one in sent.iterdir()] == ["in.json"]
    assert run_job(tmp_path, "planner_workload_x", "json.tool", "absent.json").returncode == 2


def test_a_job_that_is_stopped_sends_what_its_module_leaves_behind(tmp_path):
    sent = tmp_path / "planner_workload_x"
    sent.mkdir()
    (sent / "__init__.py").write_text("")
    (sent / "waits.py").write_text(
        "import pathlib, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "try:\n"
        "    print('waiting', flush=True)\n"
        "    signal.pause()\n"
        "finally:\n"
        "    pathlib.Path('report').write_text('ended')\n"
    )
    command = [sys.executable, "-m", "trials.cluster.job", "--fetch", "report", "planner_workload_x"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    with subprocess.Popen(
        [*command, "planner_workload_x.waits"], env=environment, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        assert [job.stdout.readline() for _ in range(2)] == [f"{BEGIN}\n", "waiting\n"]
        job.terminate()
        results = job.stdout.read().splitlines()
        assert job.wait() == 143
    assert unpack_lines(results, tmp_path / "back") == ("report",)


def test_a_folder_that_did_not_arrive_is_named(tmp_path):
    done = run_job(tmp_path, "planner_workload_none", "json.tool")
    assert done.returncode == 1
    assert "planner_workload_none did not arrive with the job" in done.stderr
