"""What a full checkpoint of a workload costs: measured by saving and loading it where the user's will lie.

Written and read with the same functions that `planner.checkpoint` uses in the user's loop. A synchronous save
is timed until the file is on the disk; of an asynchronous one the copy to host memory stalls training, and it
is durable when the file is. Before loading the file is dropped from the system's cache, where that is
possible: after a restart it would not be there either.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from trials.extras import CheckpointCost, CheckpointUnmeasured
from trials.machine.cgroup import available_memory_bytes
from trials.measuring.state_file import (
    copied,
    drop_from_cache,
    random_state,
    read_state,
    tensor_bytes,
    write_state,
)

REPEATS = 3
LIMIT_S = 45.0  # that the first repeat is expected to take, or there is none
MORE_LIMIT_S = 10.0  # that repeats have taken, or there are no more of them
_SAMPLE_BYTES = 64 << 20  # written first to see how fast the place is, where a checkpoint is much larger
_SPARE_FACTOR = 1.1
_PASSES = 3  # over the bytes in a repeat: a save, a load, an asynchronous save


def local_directory() -> Path:
    """On the node's own disk: /tmp is memory on many systems, /var/tmp outlives a reboot (FHS 3.0)."""
    kept = Path("/var/tmp")  # noqa: S108  (the file has a name of its own and is removed)
    folder = kept if os.access(kept, os.W_OK) else Path(tempfile.gettempdir())
    return folder / "planner-checkpoints"


def measure_checkpoint_cost(
    module: Any, optimizer: Any, directory: Path, repeats: int = REPEATS, writers_per_node: int = 1
) -> CheckpointCost | CheckpointUnmeasured:
    """Save and load ``module``, ``optimizer`` and the random state in ``directory``; leaves no file there.

    The optimizer should have done a step: before it, many have no state. Module, optimizer and random state
    are afterwards what they were. What would take over ``LIMIT_S`` or does not fit is not begun; of a large
    checkpoint there are fewer repeats. ``writers_per_node`` processes measure at the same time.
    """
    path = directory / f"checkpoint-cost-{os.getpid()}.pt"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        why_not = _why_not(tensor_bytes(_state(module, optimizer)), directory, writers_per_node)
        if why_not:
            return CheckpointUnmeasured(reason=f"{directory}: {why_not}")
        return _measure(module, optimizer, path, repeats)
    except OSError as error:
        return CheckpointUnmeasured(reason=f"{directory}: no checkpoint can be saved there ({error})")
    except Exception as error:  # noqa: BLE001  (the user's modules decide what their state is)
        return CheckpointUnmeasured(reason=f"{type(error).__name__}: {error}".splitlines()[0])
    finally:
        _remove(path)


def _measure(module: Any, optimizer: Any, path: Path, repeats: int) -> CheckpointCost:
    saves_s: list[float] = []
    stalls_s: list[float] = []
    durables_s: list[float] = []
    loads_s: list[float] = []
    begun_s, size_bytes = time.perf_counter(), 0
    while not saves_s or (len(saves_s) < repeats and time.perf_counter() - begun_s < MORE_LIMIT_S):
        save_s, size_bytes = _time_save(module, optimizer, path)
        saves_s.append(save_s)
        loads_s.append(_time_load(module, optimizer, path))
        stall_s, durable_s = _time_async_save(module, optimizer, path)
        stalls_s.append(stall_s)
        durables_s.append(durable_s)
    return CheckpointCost(
        directory=str(path.parent),
        size_bytes=size_bytes,
        save_s=statistics.median(saves_s),
        async_stall_s=statistics.median(stalls_s),
        async_durable_s=statistics.median(durables_s),
        load_s=statistics.median(loads_s),
    )


def _why_not(size_bytes: int, directory: Path, writers_per_node: int) -> str:
    """What speaks against it; "" where nothing does. A new file is written while the old one is there."""
    needed_bytes = _SPARE_FACTOR * size_bytes * writers_per_node
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < 2 * needed_bytes:
        return f"{free_bytes / 1e9:.1f} GB are free, two checkpoints need {2 * needed_bytes / 1e9:.1f} GB"
    memory_bytes = available_memory_bytes()
    if memory_bytes is not None and memory_bytes < needed_bytes:
        return f"the copy in host memory needs {needed_bytes / 1e9:.1f} GB of {memory_bytes / 1e9:.1f} GB"
    if size_bytes > 2 * _SAMPLE_BYTES:
        expected_s = _PASSES * size_bytes * _seconds_per_byte(directory)
        if expected_s > LIMIT_S:
            return f"saving and loading {size_bytes / 1e9:.1f} GB would take about {expected_s:.0f} s"
    return ""


def _seconds_per_byte(directory: Path) -> float:
    import torch

    sample = torch.frombuffer(bytearray(os.urandom(_SAMPLE_BYTES)), dtype=torch.uint8)
    path = directory / f"checkpoint-rate-{os.getpid()}.pt"
    begun_s = time.perf_counter()
    try:
        write_state(sample, path)
        return (time.perf_counter() - begun_s) / _SAMPLE_BYTES
    finally:
        _remove(path)


def _state(module: Any, optimizer: Any) -> dict[str, Any]:
    return {"model": module.state_dict(), "optimizer": optimizer.state_dict(), "random": random_state()}


def _time_save(module: Any, optimizer: Any, path: Path) -> tuple[float, int]:
    begun_s = _now_s()
    size_bytes = write_state(_state(module, optimizer), path)
    return _now_s() - begun_s, size_bytes


def _time_async_save(module: Any, optimizer: Any, path: Path) -> tuple[float, float]:
    begun_s = _now_s()
    state = copied(_state(module, optimizer))
    failures: list[OSError] = []
    writer = threading.Thread(target=_write_or_tell, args=(state, path, failures))
    writer.start()
    stall_s = _now_s() - begun_s
    writer.join()
    if failures:
        raise failures[0]
    return stall_s, time.perf_counter() - begun_s


def _write_or_tell(state: dict[str, Any], path: Path, failures: list[OSError]) -> None:
    try:
        write_state(state, path)
    except OSError as error:
        failures.append(error)


def _time_load(module: Any, optimizer: Any, path: Path) -> float:
    drop_from_cache(path)
    begun_s = _now_s()
    state = read_state(path)
    module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return _now_s() - begun_s


def _now_s() -> float:
    """Now, when the device has done what it was told."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
