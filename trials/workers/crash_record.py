"""What a rank leaves behind for whoever asks why it ended: one small file per rank on its node's disk.

A process that is killed or runs over its limit cannot report. It writes down beforehand which trial it
begins; ``faulthandler`` appends every thread's stack at the limit; the rank that takes its place reads the
file and sends it on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trials.machine.cgroup import read_cgroup

_FINISHED = "finished\n"
_VMSTAT = Path("/proc/vmstat")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRecord:
    """What one rank left of its last trial."""

    rank: int
    trial_id: int
    is_finished: bool  # its part of the trial had ended, well or not, when it last wrote
    stacks: str  # of all its threads at the time limit, "" if it ended otherwise
    kernel_kill_count: int  # processes that the kernel killed for memory on this node since the trial began


class CrashRecorder:
    """Writes this rank's record and keeps the time limit of its trial."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._path = folder / f"rank{rank}"
        self._rank = rank
        self._file: IO[str] | None = None

    def begin(self, trial_id: int, limit_s: float) -> None:
        """Note the trial, and end this process with its stacks in the record when ``limit_s`` is over.

        The limit is kept by a thread of the C library, so it holds even while the model's code blocks Python.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.close()
        header = {"rank": self._rank, "trial_id": trial_id, "kernel_kills": kernel_kills()}
        self._file = self._path.open("w")
        self._file.write(json.dumps(header) + "\n")
        self._file.flush()
        faulthandler.dump_traceback_later(limit_s, exit=True, file=self._file)

    def finish_part(self) -> None:
        """Note that this rank's own part has ended; the limit still holds for what waits for others."""
        if self._file is not None:
            self._file.write(_FINISHED)
            self._file.flush()

    def end(self) -> None:
        """The trial has ended on every rank: lift the limit."""
        faulthandler.cancel_dump_traceback_later()
        self.close()

    def close(self) -> None:
        """Close the record's file; it stays on disk."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Leave nothing behind: the record, and the folder with the node's last one."""
        self.close()
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other ranks' records are still there, or it is gone
            self._path.parent.rmdir()


def crash_folder(token: str) -> Path:
    """Where the records of one run lie on every node."""
    return Path(tempfile.gettempdir()) / f"planner-trials-{token}"


def read_crash_records(folder: Path) -> tuple[CrashRecord, ...]:
    """The records that earlier processes of this run left on this node."""
    return tuple(record for record in map(_read, sorted(folder.glob("rank*"))) if record is not None)


def kernel_kills() -> int:
    """Processes that the kernel has killed for memory: in this container, else on this host, since boot."""
    count = read_cgroup().oom_kill_count
    if count is not None or not _VMSTAT.exists():
        return count or 0
    found = re.search(r"^oom_kill (\d+)$", _VMSTAT.read_text(), re.MULTILINE)
    return int(found.group(1)) if found else 0


def _read(path: Path) -> CrashRecord | None:
    header, _, rest = path.read_text(errors="replace").partition("\n")
    if not header:  # killed before the first line was out
        return None
    noted = json.loads(header)
    is_finished = rest.startswith(_FINISHED)
    return CrashRecord(
        rank=noted["rank"],
        trial_id=noted["trial_id"],
        is_finished=is_finished,
        stacks=rest.removeprefix(_FINISHED),
        kernel_kill_count=max(0, kernel_kills() - noted["kernel_kills"]),
    )
