"""Lets a model file that asks for CUDA run where there is none, while a step of it is traced.

Many files say ``device="cuda"``, ``.cuda()`` or ``.to("cuda")`` inside ``model()``. On a build of torch
without CUDA those fail, and autograd on fake CUDA tensors ends the process. `cuda_as_cpu` sends each such
request to the CPU and remembers from which line it came, so that a report can say what was traced in whose
place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_CPU = torch.device("cpu")
_POSITIONAL = frozenset({torch.Tensor.to, torch.Tensor.type})  # take a device without a keyword


class CudaRequests(TorchFunctionMode):
    """Sends requests for CUDA devices to the CPU while the mode is on.

    Args:
        path: the model file; only its own lines are remembered.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self.lines: list[int] = []  # of the model file, in the order seen, each once
        self.asked_lines: list[int] = []  # where it asked whether CUDA is there

    def note(self, lines: list[int]) -> None:
        """Remember the line of the model file that is running."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._path:
                if frame.f_lineno not in lines:
                    lines.append(frame.f_lineno)
                return
            frame = frame.f_back  # type: ignore[assignment]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            self.note(self.lines)
            return args[0]
        if is_cuda(given.get("device")):
            self.note(self.lines)
            given["device"] = _CPU
        if func in _POSITIONAL and any(is_cuda(value) for value in args[1:]):
            self.note(self.lines)
            args = (args[0], *(_CPU if is_cuda(value) else value for value in args[1:]))
        return func(*args, **given)


def is_cuda(device: object) -> bool:
    """Whether ``device`` (a torch.device, a string, an index, anything else) names a CUDA device."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    return isinstance(device, int) and not isinstance(device, bool)


@contextmanager
def cuda_as_cpu(path: str) -> Iterator[CudaRequests]:
    """Requests of the file at ``path`` for CUDA go to the CPU; where CUDA is there nothing changes.

    ``torch.cuda.is_available()`` stays true to the machine, since a file that branches on it may go on to ask
    the device for what a trace cannot know; the lines that ask are kept in ``asked_lines``.
    """
    requests = CudaRequests(path)
    if torch.cuda.is_available():
        yield requests
        return
    before = torch.cuda.is_available

    def is_available() -> bool:
        if sys._getframe(1).f_code.co_filename == path:  # torch itself asks, too
            requests.note(requests.asked_lines)
        return False

    torch.cuda.is_available = is_available
    try:
        with requests:
            yield requests
    finally:
        torch.cuda.is_available = before
