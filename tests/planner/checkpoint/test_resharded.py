"""A run goes on in another layout with the weights and the optimizer that it had."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def losses(directory: Path, *pieces: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.planner.checkpoint.resharded_run", str(directory), *pieces],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [loss for line in done.stdout.splitlines() for loss in json.loads(line)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return losses(tmp_path_factory.mktemp("whole") / "run", "single:1:16")


@pytest.mark.parametrize(
    "pieces",
    [
        ["fsdp2:2:4", "fsdp2:3:8", "fsdp2:1:12", "fsdp2:2:16"],
        ["ddp:2:4", "ddp:3:8", "ddp:1:16"],
        ["fsdp2:2:4", "single:1:16"],
    ],
    ids=["FSDP2", "DDP", "from FSDP2 to one"],
)
def test_other_numbers_of_processes_go_on_where_the_run_was(
    undisturbed: list[float], tmp_path: Path, pieces: list[str]
) -> None:
    found = losses(tmp_path / "run", *pieces)
    assert found == pytest.approx(undisturbed, rel=1e-4)
    assert found[4:] != pytest.approx(undisturbed[: len(found) - 4], rel=1e-2)  # it did not begin anew
