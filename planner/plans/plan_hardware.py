"""Hardware as a plan would use it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.estimate.values import Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHardware:
    """Hardware as a plan would use it. Several worker counts only where workers share a CPU."""

    hardware: Hardware
    node_count: int
    worker_counts: tuple[int, ...]  # in all, over the nodes
    node_memory_bytes: int  # CUDA's total of one GPU, or of the host on CPU
