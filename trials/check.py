"""Checks the user's model file by one real step on CPU, in a process of its own. Imports no torch.

What the file prints, its sys.exit, a crash or an endless loop stay in that process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from trials.errors import TrialsError
from trials.profile import WorkloadProfile
from trials.trial import Workload

CHECK_BATCH_SIZE = 2  # BatchNorm refuses 1 on feature maps of one pixel
LIMIT_S = 600.0
_SHOWN_LINES = 15  # of what a crashed check printed


def check(workload: Workload, *, limit_s: float = LIMIT_S) -> WorkloadProfile:
    """Run one step of the workload at batch size 2 and trace it.

    Raises TrialsError, naming file, function and fix, when the file does not meet the contract.
    """
    from pydantic import TypeAdapter  # a machine that only takes first steps may do without

    with tempfile.TemporaryDirectory(prefix="planner-check-") as folder:
        answer, output = Path(folder) / "answer.json", Path(folder) / "output.txt"
        code = _run(workload, answer, output, limit_s)
        if not answer.exists():
            raise TrialsError(_explain_death(workload, code, output, limit_s))
        found = json.loads(answer.read_text())
    if "error" in found:
        raise TrialsError(found["error"])
    return TypeAdapter(WorkloadProfile).validate_python(found["profile"])


def _run(workload: Workload, answer: Path, output: Path, limit_s: float) -> int | None:
    """The exit code of the checking process; None when it was ended at the limit."""
    command = [
        sys.executable,
        "-P",  # the current directory stays off the import path: its trials/ is not ours
        "-m",
        "trials.first_step",
        workload.path,
        workload.sha256,
        str(answer),
    ]
    with output.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603  (our own module; the path is an argument, not a command)
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": _python_path()},
            start_new_session=True,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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
