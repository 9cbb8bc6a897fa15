"""Brings the user's directory and our own code to every node of a cluster.

The directory travels as a Ray ``py_module`` under a name of its own, not as ``working_dir``: Ray puts the
latter first on every worker's import path, where a user's ``random.py`` or ``trials/`` would shadow the real
ones before our loader, which puts it last, is asked.
"""

from __future__ import annotations

import os
import shutil
import site
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from trials.cluster.ignore_rules import IgnoreRules
from trials.model_file.source import local_files
from trials.trial import Workload

_OWN_PACKAGE = Path(__file__).parents[1]
_NAMED_MAX = 3  # of what stays behind


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


def pack(
    workload: Workload, into: Path, caps: Caps | None = None, *, leave_out: Collection[Path] = ()
) -> Shipment:
    """Copy what is sent of the model file's directory into ``into``, which must outlive the upload.

    ``leave_out`` are files and folders, absolute, that stay here without a word.
    """
    source = Path(workload.path).parent
    target = into / folder_name(workload)
    target.mkdir(parents=True)
    caps = caps or Caps()
    needed = [one.relative_to(source) for one in local_files(Path(workload.path))]
    files, notes = _choose(source, caps, leave_out)
    if files is None:
        files = []
        notes = [
            f"{source} holds over {caps.total_bytes / 1e6:.0f} MB or {caps.file_count} files: only the model"
            " file and what it imports were sent to the nodes; give it a directory of its own to send data"
        ]
    for one in sorted({*files, *needed}):
        (target / one.parent).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / one, target / one)
    return Shipment(py_modules=(str(_OWN_PACKAGE), str(target)), notes=tuple(notes))


def own_import_path() -> str | None:
    """The directory that workers on this machine need on their path to import us; None when installed."""
    root = str(_OWN_PACKAGE.parent)
    return None if root in {*site.getsitepackages(), site.getusersitepackages()} else root


def _choose(source: Path, caps: Caps, leave_out: Collection[Path]) -> tuple[list[Path] | None, list[str]]:
    """The files to send, relative, or None when they are too many; and notes on large ones left out."""
    chosen: list[Path] = []
    notes: list[str] = []
    ignored: list[str] = []
    total_bytes = 0
    for path, size_bytes in _walk(source, leave_out, ignored):
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
    return chosen, [*notes, *_on_ignored(ignored)]


def _walk(source: Path, leave_out: Collection[Path], ignored: list[str]) -> Iterator[tuple[Path, int]]:
    """Files that may be sent, with their sizes; what the user may miss is added to ``ignored``."""
    rules = IgnoreRules(source)
    for folder, folders, files in os.walk(source):
        wanted = []
        for name in sorted({*folders, *files}):
            path = Path(folder) / name
            is_folder = name in folders
            if path in leave_out:
                continue
            if rules.is_ignored(path, is_folder=is_folder):
                if rules.is_missed(path):
                    ignored.append(path.relative_to(source).as_posix() + ("/" if is_folder else ""))
            elif is_folder:
                wanted.append(name)
            elif path.is_file():
                yield path, path.stat().st_size
        folders[:] = wanted


def _on_ignored(names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return [
        f"{', '.join(names[:_NAMED_MAX])}{more} were not sent to the nodes (hidden, or in an ignore"
        f" file); a line such as !{names[0]} in .rayignore beside the model file sends what the model needs"
    ]
