"""Peak memory of one rank.

On CUDA the caching allocator's own counters, from the first step on. On CPU the growth of the process's
resident set over what it held before the model was built: the kernel's high-water mark VmHWM, reset by
writing 5 to /proc/self/clear_refs (proc(5)). The interpreter and its libraries, about 0.4 GB, come on top of
that, as the CUDA context does on a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import resource
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
NO_RESET = (
    "the kernel does not let a process reset its memory peak, so the peak on CPU is the process's since it"
    " started; trials with a smaller peak than an earlier one on the same worker show the earlier one's"
)


class PeakMemory:
    """Made before the model is built; ``start`` before the first step, ``read`` after the last."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._is_cuda = device.type == "cuda"
        if not self._is_cuda:
            _load_lazy_libraries()
        self._before_bytes = 0 if self._is_cuda else _resident_bytes("VmRSS")
        self.warning: str | None = None

    def start(self) -> None:
        """Forget earlier peaks."""
        if self._is_cuda:
            torch.cuda.reset_peak_memory_stats(self._device)
            return
        try:
            _CLEAR.write_text(_RESET_PEAK)
        except OSError:
            self.warning = NO_RESET

    def read(self) -> tuple[int, int | None]:
        """Peak bytes allocated and reserved since ``start``; nothing is reserved on CPU."""
        if self._is_cuda:
            return torch.cuda.max_memory_allocated(self._device), torch.cuda.max_memory_reserved(self._device)
        return max(_peak_resident_bytes() - self._before_bytes, 0), None


def release(device: torch.device) -> None:
    """Give a finished trial's memory back to the device and the kernel. Call with no exception in flight."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)


@functools.cache
def _load_lazy_libraries() -> None:
    """Take one tiny step, once per process: torch loads about 100 MB of its own at the first one."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(2, 1, 3, 3)).sum().backward()
    optimizer.step()


def _peak_resident_bytes() -> int:
    if _STATUS.exists():
        return _resident_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _resident_bytes(field: str) -> int:
    """A line of /proc/self/status such as ``VmRSS:  1234 kB``; the lifetime's peak where there is none."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value.split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
