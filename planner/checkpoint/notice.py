"""SIGTERM as a notice that this process will be ended, heard by it alone and not by its children."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class Notice:
    """Listens for SIGTERM between `listen` and `stop`; ``is_given`` once it came.

    Children that are forked meanwhile (loader workers) get the default action back. SIGTERM is held off
    during the fork: Python drops a signal that reaches a child before its interpreter is set up, and a parent
    that ends its workers right after starting them would wait for them for ever.
    """

    def __init__(self) -> None:
        self.is_given = False
        self._previous: Any = None
        self._is_listening = False
        self._mask: set[Any] = set()

    def listen(self) -> None:
        """Signals can only be heard in the main thread; elsewhere this does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._previous = signal.signal(signal.SIGTERM, self._on_signal)
        self._is_listening = True
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._in_parent,
            after_in_child=self._in_child,
        )

    def stop(self) -> None:
        """Give SIGTERM back to whoever had it."""
        if self._is_listening:
            signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)
            self._is_listening = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's signature
        self.is_given = True

    def _before_fork(self) -> None:
        if self._is_listening:
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _in_parent(self) -> None:
        if self._is_listening:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _in_child(self) -> None:
        if self._is_listening:
            self._is_listening = False
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
