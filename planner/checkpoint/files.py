"""The files of a run's checkpoints: one of each process for each saved step, and a folder of what is sharded.

``step-00000120.rank-0-of-2.pt``: a checkpoint is whole when the files of all processes are there, each of
which is renamed into place when it is complete. Nothing else says so, so nothing can contradict it.
"""

from __future__ import annotations

import pickle
import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from planner.checkpoint.ranks import Ranks
from planner.errors import PlannerError
from trials.api import TEMPORARY_SUFFIX, read_state

_NAME = re.compile(r"step-(\d+)\.rank-(\d+)-of-(\d+)\.pt")
_STEP = re.compile(r"step-(\d+)\.")

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
            raise PlannerError(
                f"{directory}: checkpoints cannot be kept there ({error.strerror}); name another directory"
            ) from error
        if ranks.rank == 0:
            for left in directory.glob(f".step-*{TEMPORARY_SUFFIX}"):  # of a save that was killed
                left.unlink(missing_ok=True)
            kept = {self.shards_of(*saved) for saved in self.whole()}
            for left in set(directory.glob("step-*.shards-of-*")) - kept:
                shutil.rmtree(left, ignore_errors=True)

    def path_of(self, step: int, rank: int | None = None) -> Path:
        """The file of a process, by default this one."""
        return self._path(step, self._ranks.rank if rank is None else rank, self._ranks.count)

    def shards_of(self, step: int, count: int | None = None) -> Path:
        """The folder of what is sharded, by ``count`` processes; by default as many as these."""
        return self._directory / f"step-{step:08}.shards-of-{count or self._ranks.count}"

    def whole(self) -> list[tuple[int, int]]:
        """Steps whose checkpoint is whole and how many processes saved it, newest first."""
        ranks_of: dict[tuple[int, int], set[int]] = {}
        for path in self._directory.iterdir():
            match = _NAME.fullmatch(path.name)
            if match:
                ranks_of.setdefault((int(match[1]), int(match[3])), set()).add(int(match[2]))
        return sorted((saved for saved, ranks in ranks_of.items() if len(ranks) == saved[1]), reverse=True)

    def read_newest(self, load_shards: Callable[[Sequence[str], Path], None]) -> dict[str, Any] | None:
        """The state of this process from the newest checkpoint that every process can read.

        ``load_shards`` takes up the named parts from a folder.
        """
        for step, count in self._ranks.from_first(self.whole()):
            state, problem = self._read(step, count, load_shards)
            if not self._ranks.any_of(problem is not None):
                return state
            self._say(
                f"checkpoint of step {step} cannot be read ({problem or 'by another process'}), trying older"
            )
        others = sorted({count for _, count in self.whole()} - {self._ranks.count})
        if others:
            raise PlannerError(
                f"{self._directory}: checkpoints of {others[0]} processes, which this run of "
                f"{self._ranks.count} cannot take up; start as many, or give another directory to begin anew"
            )
        return None

    def forget_older(self, keep: int) -> None:
        """Remove this process's part of what is older than the ``keep`` newest whole checkpoints."""
        whole = self.whole()
        if len(whole) <= keep:
            return
        oldest_kept, _ = whole[keep - 1]
        for path in self._directory.glob("step-*"):
            step, part = _STEP.match(path.name), _NAME.fullmatch(path.name)
            if step is None or int(step[1]) >= oldest_kept:
                continue
            if part is not None and int(part[2]) % self._ranks.count == self._ranks.rank:
                path.unlink(missing_ok=True)
            elif part is None and self._ranks.rank == 0:
                shutil.rmtree(path, ignore_errors=True)

    def _path(self, step: int, rank: int, count: int) -> Path:
        return self._directory / f"step-{step:08}.rank-{rank}-of-{count}.pt"

    def _read(
        self, step: int, count: int, load_shards: Callable[[Sequence[str], Path], None]
    ) -> tuple[dict[str, Any] | None, str | None]:
        """The state, or why there is none. What only as many processes can go on with is None for others."""
        from torch.distributed.checkpoint.api import CheckpointException

        state: dict[str, Any] = {}
        problem: str | None = None
        try:
            state = read_state(self._path(step, self._ranks.rank % count, count))
            if state["parts"] is None:  # replicated: the first process wrote it for all
                state["parts"] = read_state(self._path(step, 0, count))["parts"]
        except UNREADABLE as error:
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
        if self._ranks.any_of(problem is not None):
            return None, problem
        try:
            if state.get("sharded"):
                load_shards(state["sharded"], self.shards_of(step, count))
        except (*UNREADABLE, CheckpointException) as error:
            return None, f"{type(error).__name__}: {error}".splitlines()[0]
        return (state if count == self._ranks.count else _divided(state, count, self._ranks.count)), None


def _divided(state: dict[str, Any], before: int, now: int) -> dict[str, Any]:
    """The state for another number of processes: as many samples of the epoch are used, by new chance."""
    position = state["position"]
    if position is not None:
        position = {**position, "used": position["used"] * before // now, "own": None}
    return {**state, "random": None, "position": position}
