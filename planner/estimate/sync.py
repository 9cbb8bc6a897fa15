"""Gradient and parameter traffic of a step on several workers, by ring collectives."""

from __future__ import annotations

import math
from dataclasses import dataclass

from catalogs.gpus import DeviceKind, Link
from planner.estimate.values import Hardware
from trials.trial import Parallelism, TrialConfig

PCIE_BYTES_PER_S = 12e9  # one direction of PCIe 3.0 x16 as NCCL reaches it
HOST_BYTES_PER_S = 4e9  # through host memory, without peer access
GLOO_BYTES_PER_S = 1.5e9  # gloo between processes of one machine
NETWORK_BYTES_PER_S = 1.25e9  # 10 Gbit/s Ethernet, where the offer does not say
GRADIENT_BYTES = 4  # per parameter: the optimizer holds fp32 parameters, so gradients are fp32


@dataclass(frozen=True, slots=True)
class Exposed:
    """Seconds per step that synchronisation adds: nothing hidden behind backward, or all that can be."""

    none_hidden_s: float
    all_hidden_s: float


def synchronisation(
    config: TrialConfig, hardware: Hardware, parameter_count: int, compute_s: float
) -> Exposed:
    """Traffic of ``config`` over the slowest link of its ring, with the backward time that may hide it."""
    workers = config.gpu_count
    if workers == 1 or config.parallelism is Parallelism.SINGLE:
        return Exposed(none_hidden_s=0.0, all_hidden_s=0.0)
    ring_s = (workers - 1) / workers * GRADIENT_BYTES * parameter_count / ring_bytes_per_s(config, hardware)
    if config.parallelism is Parallelism.FSDP2:
        total_s = (
            3.0 * ring_s * config.accumulation
        )  # all-gather twice, reduce-scatter once, every micro batch
        cover_s = compute_s
    else:
        total_s = 2.0 * ring_s  # reduce-scatter and all-gather, after the last micro batch
        cover_s = compute_s * 2.0 / 3.0 / config.accumulation  # backward is two thirds of a micro batch
    return Exposed(none_hidden_s=total_s, all_hidden_s=max(0.0, total_s - cover_s))


def ring_bytes_per_s(config: TrialConfig, hardware: Hardware) -> float:
    """Bandwidth of the slowest hop of a ring through all workers."""
    if hardware.gpu.kind is DeviceKind.CPU:
        inside = GLOO_BYTES_PER_S
    elif hardware.link is Link.NVLINK:
        inside = hardware.gpu.link_bytes_per_s or PCIE_BYTES_PER_S
    else:
        inside = PCIE_BYTES_PER_S if hardware.link is Link.PCIE else HOST_BYTES_PER_S
    if config.node_count == 1:
        return inside
    return min(
        inside if config.gpu_count > config.node_count else math.inf,
        hardware.network_bytes_per_s or NETWORK_BYTES_PER_S,
    )
