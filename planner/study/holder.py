"""Who works on a study: a process that says every few seconds that it lives, or is dead.

On its own host the process tells, by its number and its start, since numbers are given again; to others, and
where no start can be read, the time at which it was last heard of. Clocks of hosts that share a database may
differ by minutes, hence the patience.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEAT_S = 30.0
DEAD_AFTER_S = 600.0  # without a beat, as another host sees it
PREFIX = "holder:"
_ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A sweep's process."""

    host: str
    pid: int
    seen_at_s: float  # since 1970
    start: str | None = None  # see `process_start`

    @property
    def name(self) -> str:
        """As the trials that it runs name it."""
        return f"{self.host}:{self.pid}"

    def is_alive(self, now_s: float) -> bool:
        """Whether it still works on the study, as far as this process can tell."""
        is_heard = now_s - self.seen_at_s < DEAD_AFTER_S
        if self.host != socket.gethostname():
            return is_heard
        if self.pid == os.getpid() or not _has_process(self.pid):
            return False
        start = process_start(self.pid)
        if start is None or (self.start is None and start != _ENDED):
            return is_heard
        return start == self.start


def this_process() -> Holder:
    """This process, seen now."""
    return Holder(
        host=socket.gethostname(), pid=os.getpid(), seen_at_s=time.time(), start=process_start(os.getpid())
    )


def others(attributes: Mapping[str, Any]) -> dict[str, Holder]:
    """Other processes that work on a study with these attributes, by name. One host has one at most."""
    now_s = time.time()
    found = (
        Holder(
            host=key.removeprefix(PREFIX),
            pid=value["pid"],
            seen_at_s=value["seen_at_s"],
            start=value.get("start"),
        )
        for key, value in attributes.items()
        if key.startswith(PREFIX) and value is not None
    )
    return {one.name: one for one in found if one.is_alive(now_s)}


@contextlib.contextmanager
def beating(write: Callable[[str, object], None], on_trouble: type[Exception]) -> Iterator[None]:
    """Write now and again that this process lives, in a thread; and at the end that it has gone.

    A write that raises ``on_trouble`` is left to whoever writes next to notice.
    """
    is_over = threading.Event()
    key = PREFIX + this_process().host

    def write_now() -> None:
        me = this_process()
        write(key, {"pid": me.pid, "seen_at_s": me.seen_at_s, "start": me.start})

    def beat() -> None:
        while not is_over.wait(BEAT_S):
            with contextlib.suppress(on_trouble):
                write_now()

    write_now()
    thread = threading.Thread(target=beat, daemon=True, name="study-holder")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        with contextlib.suppress(on_trouble):
            write(key, None)


def process_start(pid: int) -> str | None:
    """When a process began, as a text that no other process with its number has; None where nobody says.

    The same for all that have ended and that no parent has waited for. From Linux's /proc.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return _ENDED if fields[0] in "ZX" else f"{boot}:{fields[19]}"  # man 5 proc: state, starttime


def _has_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
