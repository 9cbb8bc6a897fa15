"""Which accelerators the cluster has, by name and count.

Ray's own accelerator_type merges A100 40 and 80 GB, the H100 form factors and MIG slices, so each node is
asked through NVML. Names here are the driver's; the planner matches them to the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What a node runs; trials need the same Ray and Python minor version and torch everywhere."""

    python: str
    ray: str
    torch: str | None  # None where torch cannot be imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One alive node of the cluster and its devices of one kind.

    A node without GPUs has ``gpu_count == 0`` and is described by its CPU.
    """

    node_id: str
    hostname: str
    device_name: str  # what NVML says of the GPUs, or the CPU's model name
    device_memory_bytes: int  # of one GPU, or the host's
    gpu_count: int
    cpu_count: int
    accelerator_type: str | None  # Ray's resource name without its prefix
    is_mig: bool
    versions: Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Devices of one catalog type that trials may use together."""

    gpu: str  # catalog name
    is_cpu: bool
    device_name: str  # what a worker there must report
    nodes: tuple[Node, ...]

    @property
    def worker_count_max(self) -> int:
        """Workers that fit: one per GPU, or one per core on CPU."""
        return sum(one.cpu_count if self.is_cpu else one.gpu_count for one in self.nodes)
