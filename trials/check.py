"""Checks the user's model file by one step on CPU, fake or real, in a process of its own. Imports no torch.

What the file prints, its sys.exit, a crash or an endless loop stay in that process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from trials.errors import TrialsError
from trials.profile import WorkloadProfile
from trials.trial import Workload

CHECK_BATCH_SIZE = 2  # BatchNorm refuses 1 on feature maps of one pixel
LIMIT_S = 600.0
_POLL_S = 0.05
_ANSWER, _OUTPUT = "answer.json", "output.txt"  # in the folder of a check
_SHOWN_LINES = 15  # of what a crashed check printed


class RealStep(StrEnum):
    """Whether one step is run for real, beside the one on fake tensors."""

    CHEAP = "cheap"  # where it takes some seconds and half of the free memory at most
    ALWAYS = "always"  # where it has the memory
    FIRST = "first"  # before anything on fake tensors, which ended the process


class Checking:
    """A check under way, made by `checking`. What is wrong with the file raises TrialsError."""

    def __init__(self, workload: Workload, folder: Path, limit_s: float, how: RealStep):
        self.workload = workload
        self._folder = folder
        self._how = how
        self._process = _start(workload, folder, how)
        self._limit_s = limit_s
        self._deadline_s = time.monotonic() + limit_s

    def first_step(self) -> WorkloadProfile:
        """Wait for the step: the profile without its trace, which may take as long again."""
        while not (self._folder / _ANSWER).exists():
            try:
                self._process.wait(_POLL_S)
                if not self._is_started_again():
                    break
            except subprocess.TimeoutExpired:
                if time.monotonic() > self._deadline_s:
                    break
        return self._answer()

    def result(self) -> WorkloadProfile:
        """Wait for the end: the whole profile."""
        self.first_step()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(self._deadline_s - time.monotonic(), 0.0))
        return self._answer()

    def end(self) -> None:
        """End the process and what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _is_started_again(self) -> bool:
        """Start again with a real step where the one on fake tensors ended the process without an answer."""
        if self._how is RealStep.FIRST or (self._folder / _ANSWER).exists():
            return False
        self._how = RealStep.FIRST
        self._process = _start(self.workload, self._folder, self._how)
        return True

    def _answer(self) -> WorkloadProfile:
        from pydantic import TypeAdapter  # a machine that only takes first steps may do without

        answer = self._folder / _ANSWER
        if not answer.exists():
            output = self._folder / _OUTPUT
            raise TrialsError(_explain_death(self.workload, self._process.poll(), output, self._limit_s))
        found = json.loads(answer.read_text())
        if "error" in found:
            raise TrialsError(found["error"])
        return TypeAdapter(WorkloadProfile).validate_python(found["profile"])


@contextmanager
def checking(
    workload: Workload, *, limit_s: float = LIMIT_S, how: RealStep = RealStep.CHEAP
) -> Iterator[Checking]:
    """Run one step of the workload at batch size 2 and trace it, while the ``with`` block goes on."""
    with tempfile.TemporaryDirectory(prefix="planner-check-") as name:
        under_way = Checking(workload, Path(name), limit_s, how)
        try:
            yield under_way
        finally:
            under_way.end()


def check(workload: Workload, *, limit_s: float = LIMIT_S, how: RealStep = RealStep.CHEAP) -> WorkloadProfile:
    """Run one step of the workload at batch size 2 and trace it.

    Raises TrialsError, naming file, function and fix, when the file does not meet the contract.
    """
    with checking(workload, limit_s=limit_s, how=how) as under_way:
        return under_way.result()


def _start(workload: Workload, folder: Path, how: RealStep) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-P",  # the current directory stays off the import path: its trials/ is not ours
        "-m",
        "trials.first_step",
        workload.path,
        workload.sha256,
        str(folder / _ANSWER),
        how,
    ]
    with (folder / _OUTPUT).open("wb") as file:
        return subprocess.Popen(  # noqa: S603  (our own module; the path is an argument, not a command)
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": _python_path()},
            start_new_session=True,
        )


def _python_path() -> str:
    root = str(Path(__file__).parent.parent)
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))


def _explain_death(workload: Workload, code: int | None, output: Path, limit_s: float) -> str:
    if code is None:
        return (
            f"{workload.path}: one step at batch size {CHECK_BATCH_SIZE} on CPU took longer than"
            f" {limit_s:g} s; make the model or data set smaller for a trial, or look for an endless loop"
        )
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    lines = output.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
    said = "; the last it said:\n  " + "\n  ".join(lines) if lines else ", and it said nothing"
    return f"{workload.path}: the process that ran one step of it ended with {how}{said}"
