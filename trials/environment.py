"""Where a measurement was taken."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from trials.place import Place
from trials.telemetry import driver_version
from trials.trial import Environment

_CPU_INFO = Path("/proc/cpuinfo")


def read_environment(place: Place, node_count: int) -> Environment:
    """The device and software of this rank."""
    device = place.torch_device
    is_cuda = device.type == "cuda"
    return Environment(
        device_name=torch.cuda.get_device_name(device) if is_cuda else cpu_name(),
        device_memory_bytes=(
            torch.cuda.get_device_properties(device).total_memory if is_cuda else host_memory_bytes()
        ),
        driver=driver_version() if is_cuda else None,
        cuda=torch.version.cuda if is_cuda else None,
        torch=torch.__version__,
        ray=place.ray_version,
        python=platform.python_version(),
        host_cpu_count=os.cpu_count() or 1,
        node_count=node_count,
        threads_per_worker=None if is_cuda else torch.get_num_threads(),
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
    """The host's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
