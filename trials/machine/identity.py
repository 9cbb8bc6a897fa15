"""What a machine says of its own devices and software. Imports neither torch nor ray.

Discovery and the workers ask here, so that a trial's device is compared with the very same words.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pynvml

from trials.devices import Versions
from trials.machine.cgroup import read_cgroup

_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardIdentity:
    """One GPU as NVML sees it: its name, and its memory in bytes."""

    name: str
    memory_bytes: int
    is_mig: bool  # divided into slices, or a slice itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one node answers when it is asked what it is."""

    cards: tuple[CardIdentity, ...]
    why_no_cards: str  # NVML's reason, "" where it answered
    cpu_name: str
    host_memory_bytes: int
    versions: Versions
    has_compiler: bool = False


def read_machine() -> Machine:
    """This machine's GPUs by NVML, its CPU, memory and versions."""
    cards: tuple[CardIdentity, ...] = ()
    reason = ""
    try:
        with _nvml():
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            cards = tuple(_read_card(one) for one in handles)
    except pynvml.NVMLError as error:
        reason = str(error)
    return Machine(
        cards=cards,
        why_no_cards=reason,
        cpu_name=cpu_name(),
        host_memory_bytes=host_memory_bytes(),
        versions=Versions(
            python=platform.python_version(), ray=_version("ray") or "none", torch=_version("torch")
        ),
        has_compiler=any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++")),
    )


def cpu_name() -> str:
    """The CPU's model name, or the machine type where the kernel does not give one."""
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def host_memory_bytes() -> int:
    """Bytes of memory that this machine may use: the host's, or what its container is given of it."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = read_cgroup().memory_limit_bytes
    return physical if limit is None else min(physical, limit)


def host_cpu_count() -> int:
    """Cores that this machine may use: the host's, or its container's, rounded down as Ray does."""
    limit = read_cgroup().cpu_limit
    cores = os.cpu_count() or 1
    return cores if limit is None else max(1, min(cores, int(limit)))


def device_name(device: str) -> str:
    """What a worker on ``device`` ("cpu" or "cuda:0") says it runs on; imports torch for a GPU only."""
    if device == "cpu":
        return cpu_name()
    import torch  # discovery must not pay for it

    return torch.cuda.get_device_name(device)


def _read_card(handle: Any) -> CardIdentity:
    name = pynvml.nvmlDeviceGetName(handle)
    name = name.decode() if isinstance(name, bytes) else str(name)
    try:
        is_mig = pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError:  # cards that cannot be divided have no such mode
        is_mig = False
    memory_bytes = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    return CardIdentity(name=name, memory_bytes=memory_bytes, is_mig=is_mig or " MIG " in name)


@contextmanager
def _nvml() -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
