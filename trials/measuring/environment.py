"""Where a measurement was taken."""

from __future__ import annotations

import platform

import torch

from trials.machine.identity import device_name, host_cpu_count, host_memory_bytes
from trials.measurement import Environment
from trials.measuring.telemetry import driver_version
from trials.rank_context import RankContext


def read_environment(context: RankContext, node_count: int) -> Environment:
    """The device and software of this rank."""
    device = context.torch_device
    is_cuda = device.type == "cuda"
    return Environment(
        device_name=device_name(context.device),
        device_memory_bytes=(
            torch.cuda.get_device_properties(device).total_memory if is_cuda else host_memory_bytes()
        ),
        driver=driver_version() if is_cuda else None,
        cuda=torch.version.cuda if is_cuda else None,
        torch=torch.__version__,
        ray=context.ray_version,
        python=platform.python_version(),
        host_cpu_count=host_cpu_count(),
        node_count=node_count,
        threads_per_worker=None if is_cuda else torch.get_num_threads(),
    )
