"""The command as a person runs it: a real embedded Ray, a real study, real processes killed for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.commands.remeasure import MEASURED_STEPS
from planner.errors import PlannerError
from planner.exits import Exit
from planner.study.saved import SavedTrial
from planner.study.store import load_study
from trials.measurement import Measurement
from trials.trial import Failure, FailureKind, Purpose, TrialConfig

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

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
CPU_CATALOG = """provider,instance_type,region,pricing,gpu,gpu_count,vcpus,memory_gib,price_usd_per_hour,as_of
own,box,here,on-demand,{cpu},1,2,8,0.10,2026-01-01
"""


class Runs:
    """Sweeps of one tiny model on one study."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "tiny.py"
        self.model.write_text(MODEL)
        self.url = f"sqlite:///{folder / 'study.db'}"
        self.out = folder / "report"
        self.folder = folder

    def start(self, *flags: str, start_new_session: bool = False) -> subprocess.Popen[str]:
        """A sweep under way."""
        command = ("sweep", str(self.model), "--budget", "50", "--out", str(self.out), *flags)
        return self._begin(*command, start_new_session=start_new_session)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and stdout of a command that has ended."""
        return finish(self._begin(*arguments))

    def _begin(self, *arguments: str, start_new_session: bool = False) -> subprocess.Popen[str]:
        with (self.folder / "stderr.txt").open("a") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "planner", *arguments, "--storage", self.url],
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
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Its processes hear every signal, also where what started the tests ignores some, as nohup does."""
    ignored = [one for one in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield Runs(tmp_path)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def until(is_so: Callable[[], object], process: subprocess.Popen[str], runs: Runs) -> None:
    """Watch a process until it has come so far; the test's own time limit ends it otherwise."""
    while not is_so():
        assert process.poll() is None, f"ended early with {process.returncode}: {runs.said()}"
        time.sleep(0.1)


def assert_only_disturbed_ones_were_repeated(trials: tuple[SavedTrial, ...]) -> None:
    by_config: dict[TrialConfig, list[Measurement]] = {}
    for one in trials:
        if isinstance(one.outcome, Measurement) and one.outcome.purpose is Purpose.SEARCH:
            by_config.setdefault(one.outcome.config, []).append(one.outcome)
    for own in by_config.values():
        assert len(own) == 1 or (len(own) == 2 and own[0].disturbance)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate()
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


def test_json_on_stdout_and_reports_on_disk(runs: Runs) -> None:
    code, out = finish(runs.start("--max-trials", "3", "--json"))
    assert code == Exit.PLAN, runs.said()
    answer = json.loads(out)
    assert answer["schema_version"] >= 1
    assert {one.suffix for one in runs.out.iterdir()} == {".html", ".json", ".md"}
    trials = runs.trials()
    assert len(trials) == 3
    assert all(isinstance(one.outcome, Measurement) for one in trials), trials
    code, out = runs.run("report", "tiny", "--budget", "0.0000001")
    assert code == Exit.NOTHING_FITS, runs.said()
    assert "budget" in out


@pytest.mark.slow
def test_a_killed_driver_and_a_killed_worker_lose_only_their_trial_and_ctrl_c_ends_with_a_report(
    runs: Runs,
) -> None:
    driver = runs.start()
    until(lambda: len(runs.trials()) >= 2, driver, runs)
    driver.kill()
    finish(driver)
    kept = runs.trials()
    assert len(kept) >= 2

    driver = runs.start()  # goes on
    until(lambda: len(runs.trials()) > len(kept) and workers_of(driver.pid), driver, runs)
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

    trials = runs.trials()
    assert trials[: len(kept)] == kept
    assert_only_disturbed_ones_were_repeated(trials)
    outcomes = [one.outcome for one in trials]
    lost = [one for one in outcomes if isinstance(one, Failure)]
    assert [one.kind for one in lost] == [FailureKind.WORKER_LOST]
    assert lost[0].reason
    assert isinstance(outcomes[-1], Measurement)


@pytest.mark.slow
def test_the_noise_is_measured_at_given_weights_and_the_launched_plan_is_measured_again(runs: Runs) -> None:
    make_weights = "import torch, tiny; torch.save(tiny.model().state_dict(), 'weights.pt')"
    subprocess.run([sys.executable, "-c", make_weights], cwd=runs.folder, check=True)
    flags = ("--max-trials", "1", "--global-batch-size", "16:64", "--from-checkpoint", "weights.pt")
    code, _ = finish(runs.start(*flags))
    assert code == Exit.PLAN, runs.said()
    (trial,) = runs.trials()
    assert isinstance(trial.outcome, Measurement)
    assert trial.outcome.noise is not None
    assert trial.outcome.noise.checkpoint == str(runs.folder / "weights.pt")

    catalog = runs.folder / "mine.csv"
    catalog.write_text(CPU_CATALOG.format(cpu=trial.outcome.config.gpu))
    code, _ = runs.run("launch-files", "tiny", "--catalog", str(catalog), "--directory", "launch")
    assert code == Exit.PLAN, runs.said()
    at = ("--catalog", str(catalog), "--directory", "launch")
    code, out = runs.run("verify", "tiny", "--measure", "--json", *at)
    assert code in {Exit.PLAN, Exit.OFF_PLAN}, runs.said()  # another trial on a machine that others use
    verdict = json.loads(out)
    assert verdict["step"] >= MEASURED_STEPS
    assert verdict["step_time_s"] > 0
    assert verdict["price_usd_per_hour"] == 0.10


@pytest.mark.slow
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
    assert "ValueError: batch 41 of 40; two trials in a row ended like this" in said.replace("\n", " ")
    lines = out.split("\n\n")
    assert "The model file failed twice in a row" in lines[0]
    assert "by the trace alone" in out


@pytest.mark.slow
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
