"""The files of a run's checkpoints: one of each process for each saved step.

``step-00000120.rank-0-of-2.pt``: a checkpoint is whole when the files of all processes are there, each of
which is renamed into place when it is complete. Nothing else says so, so nothing can contradict it.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.checkpoint.ranks import Ranks
from planner.errors import PlannerError
from trials.api import TEMPORARY_SUFFIX, read_state

_NAME = re.compile(r"step-(\d+)\.rank-(\d+)-of-(\d+)\.pt")

UNREADABLE = (
    OSError,
    RuntimeError,
    EOFError,
    KeyError,
    ValueError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
)


class CheckpointFiles:
    """Checkpoints of one run in ``directory``, as one of its processes sees them."""

    def __init__(self, directory: Path, ranks: Ranks, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._ranks = ranks
        self._say = say
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PlannerError(f"{directory}: no place for checkpoints ({error.strerror})") from error
        if ranks.rank == 0:
            for left in directory.glob(f".step-*{TEMPORARY_SUFFIX}"):  # of a save that was killed
                left.unlink(missing_ok=True)

    def path_of(self, step: int, rank: int | None = None) -> Path:
        """The file of a process, by default this one."""
        number = self._ranks.rank if rank is None else rank
        return self._directory / f"step-{step:08}.rank-{number}-of-{self._ranks.count}.pt"

    def whole_steps(self) -> list[int]:
        """Steps whose checkpoint is whole, newest first."""
        count = self._ranks.count
        ranks_of: dict[int, set[int]] = {}
        for path in self._directory.iterdir():
            match = _NAME.fullmatch(path.name)
            if match and int(match[3]) == count:
                ranks_of.setdefault(int(match[1]), set()).add(int(match[2]))
        return sorted(
            (step for step, ranks in ranks_of.items() if len(ranks) == self._ranks.count), reverse=True
        )

    def read_newest(self) -> dict[str, Any] | None:
        """The state of this process from the newest checkpoint that every process can read."""
        for step in self._ranks.from_first(self.whole_steps()):
            state, problem = self._read(step)
            if not self._ranks.any_of(problem is not None):
                return state
            self._say(
                f"checkpoint of step {step} cannot be read ({problem or 'by another process'}), trying older"
            )
        self._refuse_other_counts()
        return None

    def forget_older(self, keep: int) -> None:
        """Remove this process's part of all but the ``keep`` newest whole checkpoints."""
        whole = self.whole_steps()
        if len(whole) <= keep:
            return
        oldest_kept = whole[keep - 1]
        for path in self._directory.glob(f"step-*.rank-{self._ranks.rank}-of-{self._ranks.count}.pt"):
            match = _NAME.fullmatch(path.name)
            if match and int(match[1]) < oldest_kept:
                with suppress(FileNotFoundError):
                    path.unlink()

    def _read(self, step: int) -> tuple[dict[str, Any] | None, str | None]:
        try:
            state: dict[str, Any] = read_state(self.path_of(step))
            if state["parts"] is None:  # replicated: the first process wrote it for all
                state["parts"] = read_state(self.path_of(step, rank=0))["parts"]
        except UNREADABLE as error:
            return None, f"{type(error).__name__}: {error}".splitlines()[0]
        return state, None

    def _refuse_other_counts(self) -> None:
        counts = {match[3] for path in self._directory.iterdir() if (match := _NAME.fullmatch(path.name))}
        others = sorted(counts - {str(self._ranks.count)})
        if others and str(self._ranks.count) not in counts:
            raise PlannerError(
                f"{self._directory}: checkpoints of {others[0]} processes, this run has {self._ranks.count}; "
                "start as many, or give another directory to begin anew"
            )
