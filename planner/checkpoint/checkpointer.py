"""Saves a training run as planned and takes it up again where it was. In your loop:

    with Checkpointer("checkpoints", interval_s=600, model=model, optimizer=optimizer) as checkpoint:
        batches = checkpoint.batches(loader)
        for step in checkpoint.steps(10_000):
            loss = train(next(batches))

Start the same program again and it goes on after the last saved step, with the losses that an uninterrupted
run would have had: it restores what you name (anything with ``state_dict``: model, optimizer, scheduler,
scaler), the random generators of Python, numpy, torch and CUDA, and the place in the loader.

It saves between steps: every ``interval_s`` of wall clock, at the end, and on SIGTERM, which is how launchers
pass on that an instance will be taken away (AWS says so two minutes ahead, GCP and Azure 30 seconds); after
that save the program exits with code 143. A file is either whole or not there, whenever a kill comes.

Under torch.distributed call it in every process, with a directory that all of them see. Sharded state
(FSDP2) is saved by every process, replicated state (DDP) once. As many processes go on exactly; another
number goes on from the same weights and optimizer, with other chance and another order of what is left of the
epoch.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from planner.checkpoint.files import CheckpointFiles
from planner.checkpoint.loader import LoaderPosition
from planner.checkpoint.notice import Notice
from planner.checkpoint.ranks import Ranks
from planner.checkpoint.shards import Shards, write_shards
from planner.errors import PlannerError
from trials.api import copied, random_state, restore_random_state, write_state

__all__ = ["TERMINATED", "Checkpointer", "Stateful"]

TERMINATED = 128 + signal.SIGTERM  # the exit code after a save on SIGTERM


class Stateful(Protocol):
    """What can be saved: a module, an optimizer, a scheduler, a scaler, a stateful loader."""

    def state_dict(self) -> Any:
        """Its state."""
        ...

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Take up that state."""
        ...


class Checkpointer:
    """See the module.

    Args:
        directory: for the checkpoints of this run and no other; made if it is not there.
        interval_s: wall time between the end of one save and the beginning of the next.
        keep: so many of the newest are kept.
        asynchronous: training waits only for the copy to host memory; the file is written meanwhile.
        agree_every_s: how often the processes of torch.distributed ask each other whether to save.
        say: where sentences go: stderr by default.
        clock: seconds that only go forward.
        parts: what to save, by name; None is left out. The names must be the same when it is taken up again.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        interval_s: float,
        keep: int = 2,
        asynchronous: bool = False,
        agree_every_s: float = 1.0,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **parts: Stateful | None,
    ) -> None:
        if interval_s <= 0 or keep < 1:
            raise PlannerError(f"interval_s {interval_s:g}, keep {keep}: both must be more than zero")
        self.step = 0  # optimizer steps that are done
        self._parts = {name: part for name, part in parts.items() if part is not None}
        for name, part in self._parts.items():
            if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
                raise PlannerError(
                    f"Checkpointer({name}=...): {type(part).__name__} has no state_dict; take the batches of "
                    "a loader from checkpoint.batches(loader), and wrap anything else"
                )
        self._directory = Path(directory)
        self._interval_s = interval_s
        self._keep = keep
        self._is_asynchronous = asynchronous
        self._agree_every_s = agree_every_s
        self._say = say or _to_stderr
        self._clock = clock
        self._position: LoaderPosition | None = None
        self._found: dict[str, Any] | None = None  # what was taken up: random state and loader position
        self._notice = Notice()
        self._writer: threading.Thread | None = None
        self._failure: Exception | None = None
        self._shards_step: int | None = None  # the last whose shards are written

    def __enter__(self) -> Checkpointer:
        """Take up the newest whole checkpoint, if there is one, and listen for SIGTERM."""
        self._ranks = Ranks(self._agree_every_s)
        self._shards = Shards(self._parts)
        self._files = CheckpointFiles(self._directory, self._ranks, self._say)
        self._take_up()
        self._notice.listen()
        self._saved_at_s = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for a save that is being written; on an error nothing new is saved."""
        self._notice.stop()
        self._finish_writing()
        self._ranks.close()

    def steps(self, total: int) -> Iterator[int]:
        """The numbers of the steps still to be done, from 0; saves between them and after the last."""
        if self._found is not None:
            _restore(self._found["random"])
        while self.step < total:
            yield self.step
            self._step_done(is_last=self.step + 1 >= total)

    def tick(self) -> None:
        """For a loop of another form: an optimizer step has ended. Saves if it is time."""
        self._step_done(is_last=False)

    def batches(self, loader: Any) -> Iterator[Any]:
        """Batches of ``loader``, epoch after epoch without end, going on at the saved place.

        Batches of the current epoch that were used already are fetched again and passed over, unless the
        loader keeps its own state, as torchdata's StatefulDataLoader does.
        """
        self._position = LoaderPosition(loader, self._found.get("position") if self._found else None)
        return self._position.batches()

    def save(self) -> None:
        """Save now, whatever the time. Under torch.distributed all processes must call it."""
        self._save(is_asynchronous=self._is_asynchronous)

    def _step_done(self, *, is_last: bool) -> None:
        self.step += 1
        is_due = self._clock() - self._saved_at_s >= self._interval_s
        is_due, is_stopping = self._ranks.agree(is_due, self._notice.is_given, is_forced=is_last)
        if is_stopping or is_last:
            self._save(is_asynchronous=False)
        elif is_due:
            self._save(is_asynchronous=self._is_asynchronous)
        if is_stopping and not is_last:
            self._say(f"SIGTERM: saved after step {self.step}; start again to go on from there")
            raise SystemExit(TERMINATED)

    def _save(self, *, is_asynchronous: bool) -> None:
        self._finish_writing()
        state = {
            "step": self.step,
            "parts": self._states(),
            "sharded": self._shards.state(self._shards.names),
            "random": random_state(),
            "position": self._position.state() if self._position else None,
        }
        if is_asynchronous:
            self._writer = threading.Thread(target=self._write, args=(copied(state), self.step))
            self._writer.start()
        else:
            self._write(state, self.step)
            self._finish_writing()
        self._saved_at_s = self._clock()

    def _states(self) -> dict[str, Any] | None:
        names = self._parts.keys() - self._shards.names
        states = {name: self._parts[name].state_dict() for name in sorted(names)}
        return states if self._ranks.must_write(states) else None

    def _write(self, state: dict[str, Any], step: int) -> None:
        try:
            if self._shards.names and step != self._shards_step:  # what is whole is not written over
                write_shards(state["sharded"], self._files.shards_of(step), self._ranks.writing)
                self._shards_step = step
            names = sorted(self._shards.names)
            write_state({**state, "sharded": names}, self._files.path_of(step))
            self._files.forget_older(self._keep)
        except Exception as error:  # noqa: BLE001 - of another thread: handed to the one that trains
            self._failure = error

    def _finish_writing(self) -> None:
        """A disk that fails costs no training: the save before is still there, and the next is tried."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        failure, self._failure = self._failure, None
        if isinstance(failure, OSError):
            self._say(f"checkpoint NOT saved: {failure}; the one before is kept, the next is tried")
        elif failure is not None:
            raise failure

    def _take_up(self) -> None:
        found = self._files.read_newest(
            lambda names, folder: self._shards.load(names, folder, self._ranks.writing)
        )
        if found is None:
            return
        missing = sorted(set(self._parts) ^ {*found["parts"], *found.get("sharded", ())})
        if missing:
            raise PlannerError(
                f"{self._directory}: its checkpoints and this program differ in {', '.join(missing)}; give "
                "the same parts, or another directory to begin anew"
            )
        for name, state in found["parts"].items():
            self._parts[name].load_state_dict(state)
        self.step = found["step"]
        if found.get("sharded") and found["random"] is not None:  # by as many processes
            self._shards_step = self.step
        self._found = {"random": found["random"], "position": found["position"]}
        _restore(found["random"])
        self._say(f"taken up after step {self.step} from {self._directory}")


def _restore(state: dict[str, Any] | None) -> None:
    """None after a change of the number of processes: chance goes on as this process began."""
    if state is not None:
        restore_random_state(state)


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"planner: {text}\n")
