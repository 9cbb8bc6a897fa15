"""Traces on disk, so that check, estimate and sweep of one workload trace it once.

A file is named by everything that the traces follow from: the workload's hash, what its step is made of, the
tracer's own source and torch's version. Its first line is the hash of the rest: what was cut off or written
by something else is not read, and is made anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from platformdirs import user_cache_path

from trials.profile import Trace
from trials.whole_file import write_whole

FILES_KEPT = 64
FOLDER_VARIABLE = "PLANNER_CACHE_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCache:
    """The traces of one workload as it is now, in ``folder``."""

    folder: Path
    key: str

    @staticmethod
    def of(workload_sha256: str, digest: str, folder: Path | None = None) -> TraceCache:
        """The place for a workload's traces; ``digest`` is that of its `Survey`."""
        sources = sorted(Path(__file__).parent.glob("*.py"))
        text = "".join(source.read_text() for source in sources)
        parts = (workload_sha256, digest, str(torch.__version__), text)
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return TraceCache(folder=folder or default_folder(), key=key)

    def read(self) -> tuple[Trace, ...] | None:
        """The traces; None where there are none that can be trusted."""
        from pydantic import TypeAdapter, ValidationError

        try:
            checksum, _, body = self._path.read_text().partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        if hashlib.sha256(body.encode()).hexdigest() != checksum:
            return None
        try:
            return TypeAdapter(tuple[Trace, ...]).validate_json(body)
        except ValidationError:
            return None

    def write(self, traces: Sequence[Trace]) -> None:
        """Keep the traces, and of all files the newest `FILES_KEPT`; no folder, no cache."""
        from pydantic import TypeAdapter

        body = TypeAdapter(tuple[Trace, ...]).dump_json(tuple(traces)).decode()
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
            files = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
            for old in files[FILES_KEPT:]:
                old.unlink(missing_ok=True)

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.key}.json"


def default_folder() -> Path:
    """The user's cache folder, or that of ``PLANNER_CACHE_DIR``."""
    named = os.environ.get(FOLDER_VARIABLE)
    return (Path(named) if named else user_cache_path("gpu-planner")) / "traces"
