"""The state of a training run as a file that is whole or not there. torch is imported where it is used."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

from trials.whole_file import whole_file


def write_state(state: Any, path: Path) -> int:
    """Write ``state`` to ``path`` and see it to the disk; returns the size in bytes.

    Raises OSError (disk full, no permission); then ``path`` is as before.
    """
    import torch

    with whole_file(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # what torch makes of a failed write
            raise OSError(f"{path}: {error}") from error
        return file.tell()


def read_state(path: Path) -> Any:
    """What `write_state` wrote, tensors on the CPU. Only for files of one's own: unpickling runs code."""
    import torch

    return torch.load(path, map_location="cpu", weights_only=False)


def drop_from_cache(path: Path) -> None:
    """Make the next reading come from the disk where the system allows it."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def copied(state: Any) -> Any:
    """The same state with every tensor copied to the CPU: training may go on while it is written."""
    import torch

    if isinstance(state, torch.Tensor):
        return _copied_tensor(state)
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(copied(value) for value in state)
    return state


def tensor_bytes(state: Any) -> int:
    """Bytes of all tensors in ``state``, of a sharded one those that this process holds."""
    import torch
    from torch.distributed.tensor import DTensor

    if isinstance(state, DTensor):
        state = state.to_local()
    if isinstance(state, torch.Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, dict):
        return sum(map(tensor_bytes, state.values()))
    return sum(map(tensor_bytes, state)) if isinstance(state, (list, tuple)) else 0


def random_state() -> dict[str, Any]:
    """State of all generators that this process uses: Python, torch, numpy if imported, CUDA if there."""
    import torch

    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        import numpy as np

        state["numpy"] = np.random.get_state()
    if torch.cuda.is_available():
        state["cuda"] = [torch.cuda.get_rng_state(device) for device in _cuda_devices()]
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Put the generators where `random_state` found them."""
    import torch

    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy as np

        np.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        for device, one in zip(_cuda_devices(), state["cuda"], strict=False):
            torch.cuda.set_rng_state(one, device)


def _cuda_devices() -> list[int]:
    """All devices of a lone process; of several, each has its own and leaves the others alone."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return [torch.cuda.current_device()]
    return list(range(torch.cuda.device_count()))


def _copied_tensor(tensor: Any) -> Any:
    from torch.distributed.tensor import DTensor

    if isinstance(tensor, DTensor):  # the shard of this process, still known as a part of the whole
        local = tensor.to_local().detach().to("cpu", copy=True)
        return DTensor(local, tensor._spec, requires_grad=False)
    return tensor.detach().to("cpu", copy=True)
