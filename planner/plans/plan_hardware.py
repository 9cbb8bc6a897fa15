"""Hardware as a plan would use it, and the memory that a worker has there."""

from __future__ import annotations

from dataclasses import dataclass

from catalogs.gpus import MIB, DeviceKind, Gpu
from planner.estimate.values import Hardware
from trials.trial import TrialConfig

USABLE_MEMORY_FRACTION = 0.92
"""What ECC, the driver, the CUDA context and other processes leave of the nominal memory: a T4 reports
14.6 of 16 GiB and an L4 22.0 of 24; Ray ends workers on a host that is 95% full."""

CPU_PROCESS_BYTES = 400 * MIB
"""What an interpreter with torch and ray holds before the model is there; the measured peak of a CPU trial is
what a step adds to it. A GPU's peak is counted on the card, where there is no such thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHardware:
    """Hardware as a plan would use it. Several worker counts only where workers share a CPU."""

    hardware: Hardware
    node_count: int
    worker_counts: tuple[int, ...]  # in all, over the nodes
    node_memory_bytes: int  # of one GPU, or of the host on CPU

    def memory_bytes(self, config: TrialConfig) -> int:
        """What one worker has: a GPU's memory, or its share of the host's."""
        return worker_memory_bytes(self.hardware.gpu, self.node_memory_bytes, config)


def worker_memory_bytes(gpu: Gpu, node_memory_bytes: int, config: TrialConfig) -> int:
    """What a worker's step may take of a GPU's memory, or of its share of a host's beside its process."""
    if gpu.kind is DeviceKind.GPU:
        return node_memory_bytes
    return max(1, node_memory_bytes * config.node_count // config.gpu_count - CPU_PROCESS_BYTES)
