"""Brings the user's directory and our own code to every node of a cluster.

The directory travels as a Ray ``py_module`` under a name of its own, not as ``working_dir``: Ray puts the
latter first on every worker's import path, where a user's ``random.py`` or ``trials/`` would shadow the real
ones before our loader, which puts it last, is asked.
"""

from __future__ import annotations

import os
import shutil
import site
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trials.model_file.source import local_files
from trials.trial import Workload

LEFT_OUT_NAMES = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", "node_modules", ".ruff_cache", ".mypy_cache"}
)
_OWN_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """How much is sent at most."""

    file_bytes: int = 100_000_000
    total_bytes: int = 400_000_000  # Ray refuses packages of 500 MB
    file_count: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """What the nodes need, ready to be sent."""

    py_modules: tuple[str, ...]
    notes: tuple[str, ...]  # what was left out, and what to do about it


def folder_name(workload: Workload) -> str:
    """The name under which the user's directory arrives on a node."""
    return f"planner_workload_{workload.sha256[:16]}"


def pack(workload: Workload, into: Path, caps: Caps | None = None) -> Shipment:
    """Copy what is sent of the model file's directory into ``into``, which must outlive the upload."""
    source = Path(workload.path).parent
    target = into / folder_name(workload)
    target.mkdir(parents=True)
    caps = caps or Caps()
    files, notes = _choose(source, caps)
    if files is None:
        files = [one.relative_to(source) for one in local_files(Path(workload.path))]
        notes = [
            f"{source} holds over {caps.total_bytes / 1e6:.0f} MB or {caps.file_count} files: only the model"
            " file and what it imports were sent to the nodes; give it a directory of its own to send data"
        ]
    for one in files:
        (target / one.parent).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / one, target / one)
    return Shipment(py_modules=(str(_OWN_PACKAGE), str(target)), notes=tuple(notes))


def own_import_path() -> str | None:
    """The directory that workers on this machine need on their path to import us; None when installed."""
    root = str(_OWN_PACKAGE.parent)
    return None if root in {*site.getsitepackages(), site.getusersitepackages()} else root


def _choose(source: Path, caps: Caps) -> tuple[list[Path] | None, list[str]]:
    """The files to send, relative, or None when they are too many; and notes on large ones left out."""
    chosen: list[Path] = []
    notes: list[str] = []
    total_bytes = 0
    for path, size_bytes in _walk(source):
        relative = path.relative_to(source)
        if size_bytes > caps.file_bytes:
            notes.append(
                f"{relative} ({size_bytes / 1e6:.0f} MB) was not sent to the nodes; if the model needs it,"
                " put it on each node and name it by its absolute path"
            )
            continue
        total_bytes += size_bytes
        chosen.append(relative)
        if total_bytes > caps.total_bytes or len(chosen) > caps.file_count:
            return None, []
    return chosen, notes


def _walk(source: Path) -> Iterator[tuple[Path, int]]:
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(set(folders) - LEFT_OUT_NAMES)
        for name in sorted(files):
            path = Path(folder) / name
            # what Ray would leave out by an ignore file is wanted here: data are often ignored by git
            if name in {".gitignore", ".rayignore"} or not path.is_file():
                continue
            yield path, path.stat().st_size
