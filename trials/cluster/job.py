"""The entry of a submitted sweep on the cluster: runs it where its files arrived, and sends its results back.

The client that submitted the job is no part of the cluster and can read one thing of it: the job's log. So
files go there, packed and marked, and the client takes them out again. Imports neither torch nor ray.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import io
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

BEGIN = "@@planner-begin@@"
MARK = "@@planner-results@@ "
_LINE_CHARACTERS = 32_000
RESULT_BYTES_MAX = 64_000_000


def main(arguments: Sequence[str]) -> int:
    """``[--fetch NAME]... FOLDER MODULE ARGUMENT...``: run a module in the folder that was sent along."""
    parser = argparse.ArgumentParser(prog="trials.cluster.job")
    parser.add_argument("--fetch", action="append", default=[])
    parser.add_argument("folder")
    parser.add_argument("module")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    print(BEGIN, flush=True)  # noqa: T201  (the job's log is the way back)
    scratch = Path(tempfile.mkdtemp(prefix="planner-job-"))
    # a copy: Ray keeps what was sent for the next job with the same files
    folder = shutil.copytree(sent_folder(given.folder), scratch / given.folder)
    # a process of its own: whatever ends the sweep, its results are sent. -P: the user's directory is
    # where it runs, but not first on its import path
    command = [sys.executable, "-P", "-m", given.module, *given.rest]
    process = subprocess.Popen(command, cwd=folder)  # noqa: S603
    # what stops a job reaches the sweep as well, or is handed on: it ends, and its results are sent
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    code = process.wait()
    lines = pack_lines(folder, given.fetch)
    for line in lines or [f"the results are too large to send back; they lie in {folder} on the head node"]:
        print(line, flush=True)  # noqa: T201  (same)
    if lines is not None:
        shutil.rmtree(scratch)
    return code if code >= 0 else 128 - code


def sent_folder(name: str) -> Path:
    """Where a directory that was sent as a ``py_module`` lies on this node."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{name} did not arrive with the job")
    return Path(next(iter(spec.submodule_search_locations)))


def pack_lines(folder: Path, names: Iterable[str]) -> list[str] | None:
    """The files and directories of ``folder`` that exist, as marked lines; None when they are too large."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in names:
            if (folder / name).exists():
                archive.add(folder / name, arcname=name)
    if buffer.tell() > RESULT_BYTES_MAX:
        return None
    text = base64.b64encode(buffer.getvalue()).decode()
    return [MARK + text[start : start + _LINE_CHARACTERS] for start in range(0, len(text), _LINE_CHARACTERS)]


def unpack_lines(lines: Iterable[str], into: Path) -> tuple[str, ...]:
    """Write what ``pack_lines`` sent to ``into``; returns the names at its top."""
    text = "".join(line.removeprefix(MARK).strip() for line in lines)
    if not text:
        return ()
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text)), mode="r:gz") as archive:
        archive.extractall(into, filter="data")
        return tuple(sorted({name.split("/")[0] for name in archive.getnames()}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
