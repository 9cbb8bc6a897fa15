"""A real training process is killed again and again; its losses are those of one that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trials.measuring.state_file import read_state

ROOT = Path(__file__).parents[3]
STEPS = 60
TERMINATED = 143

Train = Callable[..., list[int]]


@pytest.fixture(scope="module")
def trainer() -> Iterator[subprocess.Popen[str]]:
    """Starts training processes on command; torch is imported once."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.planner.training_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


@pytest.fixture
def train(trainer: subprocess.Popen[str], tmp_path: Path) -> Train:
    """Runs one training process to its end, or to its kill; returns the exit codes."""
    number = 0

    def run(name: str, **changes: Any) -> list[int]:
        nonlocal number
        number += 1
        command = {
            "kind": "single",
            "workers": 0,
            "steps": STEPS,
            "interval_s": 1e9,
            "asynchronous": False,
            "kill_after_s": None,
            "signal": int(signal.SIGKILL),
            "notice_at_step": None,
            "directory": str(tmp_path / name),
            "losses": str(tmp_path / f"losses-{name}"),
            "store": str(tmp_path / f"store-{number}"),
            **changes,
        }
        assert trainer.stdin is not None
        assert trainer.stdout is not None
        trainer.stdin.write(json.dumps(command) + "\n")
        trainer.stdin.flush()
        codes: list[int] = json.loads(trainer.stdout.readline())
        return codes

    return run


def losses_of(directory: Path, name: str, rank: int = 0) -> list[tuple[int, str]]:
    path = directory / f"losses-{name}-{rank}"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [(int(step), loss) for step, loss in (line.split() for line in text.splitlines())]


def undisturbed(train: Train, directory: Path, **changes: Any) -> dict[int, str]:
    """Loss by step of a run in one piece."""
    assert set(train("undisturbed", **changes)) == {0}
    losses = losses_of(directory, "undisturbed")
    assert [step for step, _ in losses] == list(range(STEPS))
    assert len({loss for _, loss in losses}) > STEPS // 2
    return dict(losses)


@pytest.mark.parametrize("way", [{}, {"asynchronous": True}], ids=["synchronous", "asynchronous"])
def test_after_kills_at_random_moments_every_loss_is_the_same(
    train: Train, tmp_path: Path, way: dict[str, bool]
) -> None:
    expected = undisturbed(train, tmp_path)
    chance = random.Random(5)
    kills = steps_before = 0
    for number in range(200):
        # a save after every step: most kills meet one that is being written
        longest_s = 0.05 * 1.07**number  # fast and slow machines are killed on their way, and get there
        codes = train("killed", interval_s=1e-9, kill_after_s=chance.uniform(0, longest_s), **way)
        assert codes in ([0], [-signal.SIGKILL])
        for path in (tmp_path / "killed").glob("step-*"):
            read_state(path)  # whole, or not there
        steps = len(losses_of(tmp_path, "killed"))
        kills += codes == [-signal.SIGKILL] and steps > steps_before
        steps_before = steps
        if codes == [0]:
            break
    found = losses_of(tmp_path, "killed")
    assert kills >= 2
    assert {step for step, _ in found} == set(expected)
    assert [one for one in found if expected[one[0]] != one[1]] == []
    assert len(list((tmp_path / "killed").iterdir())) == 2  # the newest, and one before; nothing half written


def test_sigterm_loses_no_step(train: Train, tmp_path: Path) -> None:
    expected = undisturbed(train, tmp_path)
    chance = random.Random(7)
    terminations = 0
    for number in range(200):
        # no save by the clock: only those on SIGTERM
        longest_s = 0.02 * 1.07**number
        codes = train("terminated", signal=int(signal.SIGTERM), kill_after_s=chance.uniform(0, longest_s))
        assert codes in ([0], [TERMINATED], [-signal.SIGTERM])  # the last: before training began
        terminations += codes == [TERMINATED]
        if codes == [0]:
            break
    assert terminations >= 1
    assert losses_of(tmp_path, "terminated") == list(expected.items())


def test_loader_workers_deliver_what_they_would_have(train: Train, tmp_path: Path) -> None:
    expected = undisturbed(train, tmp_path, workers=1)
    codes = train("workers", workers=1, signal=int(signal.SIGTERM), kill_after_s=0.4)
    if codes != [0]:  # saved on notice, or ended before training began
        assert codes in ([TERMINATED], [-signal.SIGTERM])
        assert train("workers", workers=1) == [0]
    assert losses_of(tmp_path, "workers") == list(expected.items())


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_a_notice_to_one_process_saves_all_of_them(train: Train, tmp_path: Path, kind: str) -> None:
    expected = undisturbed(train, tmp_path, kind=kind)
    other = losses_of(tmp_path, "undisturbed", rank=1)
    assert train(kind, kind=kind, notice_at_step=17) == [TERMINATED, TERMINATED]
    assert 18 <= len(losses_of(tmp_path, kind)) < STEPS
    assert train(kind, kind=kind) == [0, 0]
    assert losses_of(tmp_path, kind) == list(expected.items())
    assert losses_of(tmp_path, kind, rank=1) == other
