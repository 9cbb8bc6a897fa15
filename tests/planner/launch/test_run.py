"""The written training script, run for real on CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest
import torch

from planner.codec import from_json
from planner.verify.evidence import Look
from tests.planner.launch.folders import GPT, cpu_config, cpu_plan, write_folder
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings, measure
from trials.model_file.source import hash_workload
from trials.model_file.workload import load
from trials.rank_context import RankContext
from trials.trial import Parallelism, TrialConfig

ROOT = Path(__file__).parents[3]

MEASURE = """
import sys, torch.distributed as dist
from trials.measuring.measure import MeasureSettings, measure
from trials.rank_context import RankContext
from trials.model_file.source import hash_workload
from trials.api import Measurement
from tests.planner.launch.test_run import DDP, GPT, SETTINGS
dist.init_process_group("gloo")
context = RankContext(rank=dist.get_rank(), world_size=2, process_group=dist.group.WORLD)
outcome = measure(hash_workload(GPT), DDP, context, SETTINGS)
assert isinstance(outcome, Measurement), outcome
if context.rank == 0:
    print(*outcome.losses)
dist.destroy_process_group()
"""

SINGLE = cpu_config()
DDP = cpu_config(gpu_count=2, parallelism=Parallelism.DDP)
SETTINGS = MeasureSettings(warmup_min=3, timed_min=17, timed_max=17)


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }


def start(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )


def logged(folder: Path) -> list[Look]:
    log = folder / "output" / "log.jsonl"
    text = log.read_text() if log.exists() else ""
    return [from_json(line, Look, where="log") for line in text.splitlines()]


def check_twenty_steps(done: subprocess.CompletedProcess[str], folder: Path, losses: list[float]) -> None:
    """Twenty steps with the losses that the trial of the same configuration had, and the weights kept."""
    assert done.returncode == 0, done.stderr
    looks = logged(folder)
    assert [one.step for one in looks] == list(range(2, 21, 2))
    expected = [fmean(losses[index : index + 2]) for index in range(0, 20, 2)]
    assert [one.loss for one in looks] == pytest.approx(expected, rel=1e-4)
    assert looks[-1].loss is not None
    assert looks[-1].loss < expected[0] - 0.5  # it learns
    assert "step 20 of 20  loss" in done.stdout
    model = load(hash_workload(GPT)).build().model
    before = {name: one.clone() for name, one in model.state_dict().items()}
    model.load_state_dict(torch.load(folder / "output" / "model.pt", weights_only=True))
    assert any(not torch.equal(one, before[name]) for name, one in model.state_dict().items())


def folder_for(config: TrialConfig, folder: Path) -> Path:
    write_folder(cpu_plan(config), folder)
    return folder


@pytest.mark.slow
def test_one_worker_trains_what_was_measured(tmp_path: Path) -> None:
    folder = folder_for(SINGLE, tmp_path)
    done = start("bash", "train.sh", "--steps", "20", folder=folder)
    measured = measure(hash_workload(GPT), SINGLE, RankContext(threads=1), SETTINGS)
    assert isinstance(measured, Measurement), measured
    check_twenty_steps(done, folder, list(measured.losses[:20]))


@pytest.mark.slow
def test_two_workers_under_torchrun_train_what_was_measured(tmp_path: Path) -> None:
    folder = folder_for(DDP, tmp_path)
    done = start("bash", "train.sh", "--steps", "20", folder=folder)
    (folder / "measure.py").write_text(MEASURE)
    measured = start("torchrun", "--standalone", "--nproc-per-node", "2", "measure.py", folder=folder)
    assert measured.returncode == 0, measured.stderr
    losses = [float(one) for one in measured.stdout.splitlines()[-1].split()]
    check_twenty_steps(done, folder, losses[:20])


@pytest.mark.slow
def test_a_run_that_is_taken_up_again_goes_on_with_the_losses_it_would_have_had(tmp_path: Path) -> None:
    """Two workers; SIGTERM in the middle; the same command again. The whole run stands beside it."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
        folder_for(DDP, folder)
    assert start("bash", "train.sh", "--steps", "40", folder=whole).returncode == 0
    command = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py", "--steps", "40")
    with subprocess.Popen(
        command, cwd=cut, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert any(line.startswith("step 12 of 40") for line in first.stdout)
        first.terminate()
        _, stderr = first.communicate(timeout=120)
    assert "SIGTERM: saved after step" in stderr
    again = start(*command, folder=cut)
    assert again.returncode == 0, again.stderr
    assert "taken up after step" in again.stderr
    looks = {one.step: one for one in logged(cut)}
    assert len({one.begun_at_s for one in looks.values()}) == 2
    (last,) = [one for one in logged(whole) if one.step == 40]
    assert looks[40].loss == pytest.approx(last.loss, rel=1e-5)


def test_another_number_of_workers_than_planned_is_refused(tmp_path: Path) -> None:
    done = start(sys.executable, "train.py", folder=folder_for(DDP, tmp_path))
    assert done.returncode == 1
    assert "the plan is for 2 workers, 1 were started; see train.sh" in done.stderr


def test_a_model_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = folder_for(SINGLE, tmp_path)
    model = folder / "model" / GPT.name
    model.write_text(model.read_text() + "\nLAYERS = 2\n")
    done = start(sys.executable, "train.py", "--steps", "1", folder=folder)
    assert done.returncode == 1
    assert "has changed since the sweep began" in done.stderr
