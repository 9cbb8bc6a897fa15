"""Tensors alive: how many bytes of storage exist at each moment of a step, and the most there ever were.

The same count as torch.distributed._tools.MemTracker (a test compares the two to the byte), without its
private module and its per-module statistics: every storage that an operation returns is added once, and
subtracted when the storage is freed. Works on fake tensors and on real ones.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class AliveBytes(TorchDispatchMode):
    """Counts the bytes of tensor storage that are alive while the mode is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.current_bytes = 0
        self.peak_bytes = 0
        self._sizes: dict[int, int] = {}  # bytes by storage address

    def add(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count tensors that were made before the mode was on, such as parameters and the batch."""
        for tensor in tensors:
            self._add(tensor)

    def restart_peak(self) -> None:
        """Forget the peak so far."""
        self.peak_bytes = self.current_bytes

    def _add(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._sizes:
            return
        size_bytes = storage.nbytes()
        self._sizes[address] = size_bytes
        weakref.finalize(storage, self._remove, address).atexit = False
        self.current_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.current_bytes)

    def _remove(self, address: int) -> None:
        self.current_bytes -= self._sizes.pop(address)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in (result,) if isinstance(result, torch.Tensor) else tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._add(leaf)
        return result


def storage_bytes(tensors: Iterable[torch.Tensor | None]) -> int:
    """Bytes that these tensors hold, each storage once."""
    sizes = {}
    for tensor in tensors:
        if tensor is not None and tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())
