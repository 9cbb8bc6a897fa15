"""What a worker can do at most: the catalog's peak figures as the denominators of the roofline.

A GPU worker has its chip alone. CPU rows of the catalog are per vCPU, and the workers of a node share its
vCPUs, so a CPU worker's figures depend on the instance and on the number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalogs.gpus import DeviceKind, Gpu
from planner.estimate.values import Hardware
from trials.trial import Precision, TrialConfig


@dataclass(frozen=True, slots=True)
class Rates:
    """Dense peak FLOP/s of one precision, fp32 FLOP/s of the general cores, and memory bandwidth."""

    flop_per_s: float
    fp32_flop_per_s: float
    bytes_per_s: float


def peak_flop_per_s(gpu: Gpu, precision: Precision) -> float | None:
    """Dense peak of the unit PyTorch uses; None where the chip has none for the precision.

    TF32 on a chip without it is computed in plain fp32, which is what the chip then really does.
    """
    match precision:
        case Precision.FP32:
            return gpu.fp32_flop_per_s
        case Precision.TF32:
            return gpu.tf32_flop_per_s or gpu.fp32_flop_per_s
        case Precision.BF16:
            return gpu.bf16_flop_per_s
        case Precision.FP16:
            return gpu.fp16_flop_per_s


def worker_rates(config: TrialConfig, hardware: Hardware) -> Rates | None:
    """Peak rates of one worker of ``config`` on ``hardware``; None without the unit or the vCPU count."""
    flop_per_s = peak_flop_per_s(hardware.gpu, config.precision)
    if flop_per_s is None:
        return None
    share = 1.0
    if hardware.gpu.kind is DeviceKind.CPU:
        if hardware.vcpus is None:
            return None
        workers_per_node = max(1, config.gpu_count // config.node_count)
        share = hardware.vcpus / workers_per_node
    return Rates(
        flop_per_s=flop_per_s * share,
        fp32_flop_per_s=hardware.gpu.fp32_flop_per_s * share,
        bytes_per_s=hardware.gpu.bandwidth_bytes_per_s * share,
    )
