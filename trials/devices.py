"""Which accelerators the cluster has, by name and count.

Ray's own accelerator_type merges A100 40 and 80 GB, the H100 form factors and MIG slices, so each node is
asked through NVML (`trials.cluster.discovery`). Names here are the driver's; the planner matches them to the
catalog. Types only: the planner thinks with them, so neither torch nor ray is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    has_compiler: bool | None = None  # a C++ compiler, which torch.compile needs; None where nobody looked


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

    def node_count_for(self, worker_count: int) -> int:
        """The fewest nodes that share ``worker_count`` devices equally; 0 where no number of nodes can."""
        counts = sorted((one.cpu_count if self.is_cpu else one.gpu_count for one in self.nodes), reverse=True)
        for node_count, least in enumerate(counts, start=1):
            share, rest = divmod(worker_count, node_count)
            if rest == 0 and 0 < share <= least:
                return node_count
        return 0


def version_problems(nodes: Sequence[Node]) -> str | None:
    """A table of the nodes when they differ in Ray, Python minor version or torch; None when they agree.

    A build suffix of torch (``+cpu``, ``+cu128``) is no difference: it follows the device.
    """
    if len({_comparable(node.versions) for node in nodes}) <= 1:
        return None
    rows = [("node", "python", "ray", "torch")]
    rows += [
        (node.hostname, node.versions.python, node.versions.ray, node.versions.torch or "missing")
        for node in nodes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join(lines)


def _comparable(versions: Versions) -> tuple[str, str, str | None]:
    minor = ".".join(versions.python.split(".")[:2])
    return minor, versions.ray, versions.torch and versions.torch.partition("+")[0]
