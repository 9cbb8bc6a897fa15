"""The command as a person runs it: a real embedded Ray, a real study, real processes killed for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import PlannerError
from planner.exits import Exit
from planner.study.saved import SavedTrial
from planner.study.store import load_study
from trials.trial import Failure, FailureKind, Measurement, Purpose, TrialConfig

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]

MODEL = """
import time
import torch
from torch import nn
def model():
    blocks = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    return nn.Sequential(nn.Linear(8, 16), blocks, nn.Linear(16, 1))
def batch(size):
    time.sleep(0.01)
    return torch.randn(size, 8)
def loss(model, batch):
    return model(batch).square().mean()
target = {"samples": 3_000_000, "global_batch_size": 16}
"""
PATIENCE_S = 240.0


class Runs:
    """Sweeps of one tiny model on one study."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "tiny.py"
        self.model.write_text(MODEL)
        self.url = f"sqlite:///{folder / 'study.db'}"
        self.out = folder / "report"
        self.folder = folder

    def start(self, *flags: str, start_new_session: bool = False) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "planner", "sweep", str(self.model), "--budget", "50"]
        command += ["--storage", self.url, "--out", str(self.out), *flags]
        with (self.folder / "stderr.txt").open("a") as said:
            return subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=self.folder,
                env={**os.environ, "RAY_AUTH_MODE": "disabled"},
                start_new_session=start_new_session,
            )

    def said(self) -> str:
        return (self.folder / "stderr.txt").read_text()

    def trials(self) -> tuple[SavedTrial, ...]:
        try:
            return load_study(self.url, "tiny").trials()
        except PlannerError:
            return ()


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def until(is_so: Callable[[], object], process: subprocess.Popen[str], runs: Runs) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert process.poll() is None, f"ended early with {process.returncode}: {runs.said()}"
        assert time.monotonic() < deadline_s, runs.said()
        time.sleep(0.1)


def assert_only_disturbed_ones_were_repeated(trials: tuple[SavedTrial, ...]) -> None:
    by_config: dict[TrialConfig, list[Measurement]] = {}
    for one in trials:
        if isinstance(one.outcome, Measurement) and one.outcome.purpose is Purpose.SEARCH:
            by_config.setdefault(one.outcome.config, []).append(one.outcome)
    for own in by_config.values():
        assert len(own) == 1 or (len(own) == 2 and own[0].disturbance)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out


def workers_of(driver: int) -> list[int]:
    """Process ids of the Ray Train workers that descend from ``driver``."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                names[int(entry.name)] = (entry / "cmdline").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])

    def descends(pid: int) -> bool:
        while pid > 1:
            if pid == driver:
                return True
            pid = parents.get(pid, 0)
        return False

    return [pid for pid, name in names.items() if "RayTrainWorker" in name and descends(pid)]


def test_json_on_stdout_reports_on_disk_and_a_second_sweep_repeats_nothing(runs: Runs) -> None:
    code, out = finish(runs.start("--max-trials", "3", "--json"))
    assert code == Exit.PLAN, runs.said()
    answer = json.loads(out)
    assert answer["schema_version"] >= 1
    assert {one.suffix for one in runs.out.iterdir()} == {".html", ".json", ".md"}
    first = runs.trials()
    assert len(first) == 3
    assert all(isinstance(one.outcome, Measurement) for one in first), first
    code, out = finish(runs.start("--max-trials", "1"))
    assert code == Exit.PLAN, runs.said()
    again = runs.trials()
    assert again[:3] == first
    assert len(again) == 4
    assert_only_disturbed_ones_were_repeated(again)
    command = [sys.executable, "-m", "planner", "report", "tiny", "--storage", runs.url]
    command += ["--budget", "0.0000001"]
    report = subprocess.run(command, capture_output=True, text=True, cwd=runs.folder, check=False)
    assert report.returncode == Exit.NOTHING_FITS, report.stderr
    assert "budget" in report.stdout


def test_a_killed_driver_loses_no_finished_trial_and_the_next_start_continues(runs: Runs) -> None:
    driver = runs.start()
    until(lambda: len(runs.trials()) >= 2, driver, runs)
    driver.kill()
    finish(driver)
    kept = runs.trials()
    assert len(kept) >= 2
    code, _ = finish(runs.start("--max-trials", "1"))
    assert code == Exit.PLAN, runs.said()
    after = runs.trials()
    assert after[: len(kept)] == kept
    assert len(after) == len(kept) + 1
    assert_only_disturbed_ones_were_repeated(after)


def test_a_model_file_that_fails_in_every_trial_ends_the_sweep_with_its_error_first(runs: Runs) -> None:
    failing = """
calls = 0
def batch(size):
    global calls
    calls += 1
    if calls > 40:
        raise ValueError(f"batch {calls} of 40")
    return torch.randn(size, 8)
def loss("""
    runs.model.write_text(MODEL.replace("def loss(", failing))
    code, out = finish(runs.start())
    assert code == Exit.BAD_INPUT, runs.said()
    assert [one.outcome.kind for one in runs.trials() if isinstance(one.outcome, Failure)] == [
        FailureKind.USER_CODE
    ] * 2
    said = runs.said()
    assert 0 < said.index("\nplanner: ") < said.index("written: ")
    assert "ValueError: batch 41 of 40; two trials in a row ended so" in said.replace("\n", " ")
    lines = out.split("\n\n")
    assert "The model file failed twice in a row" in lines[0]
    assert "by the trace alone" in out


def test_a_killed_worker_fails_its_trial_only_and_ctrl_c_ends_with_a_report(runs: Runs) -> None:
    driver = runs.start()
    until(lambda: runs.trials() and workers_of(driver.pid), driver, runs)
    before = len(runs.trials())
    for worker in workers_of(driver.pid):
        os.kill(worker, signal.SIGKILL)
    until(lambda: len(runs.trials()) >= before + 2, driver, runs)
    driver.send_signal(signal.SIGINT)
    code, out = finish(driver)
    assert code == Exit.INTERRUPTED, runs.said()
    assert "after the trial in flight" in runs.said()
    assert out.strip()
    assert (runs.out / "report.html").stat().st_size > 0
    outcomes = [one.outcome for one in runs.trials()]
    lost = [one for one in outcomes if isinstance(one, Failure)]
    assert [one.kind for one in lost] == [FailureKind.WORKER_LOST]
    assert lost[0].reason
    assert isinstance(outcomes[-1], Measurement)


@pytest.mark.parametrize(
    ("number", "reached"), [(signal.SIGTERM, "process"), (signal.SIGTERM, "group"), (signal.SIGHUP, "group")]
)
def test_a_supervisor_or_a_closing_terminal_ends_it_with_a_report(
    runs: Runs, number: signal.Signals, reached: str
) -> None:
    driver = runs.start(start_new_session=True)
    until(lambda: len(runs.trials()) >= 2, driver, runs)
    if reached == "group":
        os.killpg(driver.pid, number)
    else:
        driver.send_signal(number)
    code, out = finish(driver)
    assert code == 128 + number, runs.said()
    assert f"{number.name}: ending" in runs.said()
    assert "SIGTERM received" not in runs.said()  # Ray's own handler, with a stack of C++
    assert "Traceback" not in runs.said()
    assert out.strip()
    assert (runs.out / "report.html").stat().st_size > 0
