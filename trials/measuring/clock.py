"""Moments on the device's own time line.

On CUDA a moment is an event in the stream: steps are not synchronised one by one, so the host runs ahead as
it does in the real run, and a gap between two events is time in which the GPU waited.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

_NOW = time.perf_counter  # bound now: a model file may put its own in its place

Mark = Any  # a float of seconds, or a CUDA event


class Clock:
    """Takes moments and gives the seconds between them once ``settle`` has been called."""

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._device = device
        self.mark: Callable[[], Mark] = self._event if self._is_cuda else _NOW

    def _event(self) -> Mark:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def settle(self) -> None:
        """Wait until every moment taken has come."""
        if self._is_cuda:
            torch.cuda.synchronize(self._device)

    def seconds(self, start: Mark, end: Mark) -> float:
        """Seconds from mark ``start`` to mark ``end``, by the device's clock."""
        if self._is_cuda:
            milliseconds: float = start.elapsed_time(end)
            return milliseconds / 1000
        return float(end - start)
