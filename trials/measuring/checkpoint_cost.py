"""What a full checkpoint of a workload costs: measured by saving and loading it where the user's will lie.

Written and read with the same functions that `planner.checkpoint` uses in the user's loop. A synchronous save
is timed until the file is on the disk; of an asynchronous one the copy to host memory stalls training, and it
is durable when the file is. Before loading the file is dropped from the system's cache, where that is
possible: after a restart it would not be there either.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.measuring.state_file import copied, drop_from_cache, random_state, read_state, write_state

REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCost:
    """Medians over ``REPEATS`` saves and loads of one process; of several, the slowest counts."""

    directory: str
    size_bytes: int
    save_s: float  # synchronous: training waits so long
    async_stall_s: float  # asynchronous: training waits so long
    async_durable_s: float  # and so long after its beginning the checkpoint would survive
    load_s: float  # reading the file and putting it into module and optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnmeasured:
    """Why there is no cost."""

    reason: str


def measure_checkpoint_cost(
    module: Any, optimizer: Any, directory: Path, repeats: int = REPEATS
) -> CheckpointCost | CheckpointUnmeasured:
    """Save and load ``module``, ``optimizer`` and the random state in ``directory``; leaves nothing there.

    The optimizer should have done a step: before it, many have no state. Module, optimizer and random state
    are afterwards what they were.
    """
    path = directory / f"checkpoint-cost-{os.getpid()}.pt"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        saves_s, stalls_s, durables_s, loads_s = [], [], [], []
        size_bytes = 0
        for _ in range(repeats):
            save_s, size_bytes = _time_save(module, optimizer, path)
            saves_s.append(save_s)
            loads_s.append(_time_load(module, optimizer, path))
            stall_s, durable_s = _time_async_save(module, optimizer, path)
            stalls_s.append(stall_s)
            durables_s.append(durable_s)
    except OSError as error:
        return CheckpointUnmeasured(reason=f"{directory}: no checkpoint can be saved there ({error})")
    finally:
        _remove(path)
    return CheckpointCost(
        directory=str(directory),
        size_bytes=size_bytes,
        save_s=statistics.median(saves_s),
        async_stall_s=statistics.median(stalls_s),
        async_durable_s=statistics.median(durables_s),
        load_s=statistics.median(loads_s),
    )


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
