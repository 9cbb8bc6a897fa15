"""Signals that ask the planner to end: Ctrl-C, SIGTERM of a supervisor, SIGHUP of a terminal that closes.

A command ends with 128 and the signal's number, as shells have it. Supervisors kill what has not ended after
a grace, 30 s for Kubernetes and Slurm, so what SIGTERM and SIGHUP ask for is bounded; and they may send it
twice (`timeout` does, to the process and to its group), so only Ctrl-C presses for more by being repeated.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Callable, Iterator
from types import FrameType

from planner.exits import Exit

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A command was asked to end by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = Exit(128 + number)


@contextlib.contextmanager
def heard_by(handle: Callable[[int], None]) -> Iterator[None]:
    """Hand the number of each of these signals to ``handle`` meanwhile. What nohup ignores stays ignored."""

    def hear(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        handle(number)

    heard = [one for one in _ENDING if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
    before = {one: signal.signal(one, hear) for one in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def ending_at_once() -> Callable[[int], None]:
    """A listener that raises `Interrupted`; what supervisors repeat is not heard twice."""
    heard: list[int] = []

    def handle(number: int) -> None:
        if not heard or number == signal.SIGINT:
            heard.append(number)
            raise Interrupted(number)

    return handle


def _leave_terminal() -> None:
    """Write to nowhere from now on where the terminal is gone: each line would be an error."""
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
