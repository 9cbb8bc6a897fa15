"""What a worker's step may take of a device: the one answer to "fits"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalogs.gpus import GIB, MIB, DeviceKind
from planner.estimate.values import Basis, Estimate
from trials.api import Measurement, TrialConfig

OUTSIDE_ALLOCATOR_BYTES = int(1.5 * GIB)
"""Of CUDA's total, where no trial has said it: the context, loaded kernels, handles of cuBLAS and cuDNN. 0.3
GiB bare with lazy loading, over 1 GiB without (pytorch/pytorch#107667), and most with convolutions."""

HOST_USABLE_FRACTION = 0.92  # Ray ends workers on a host that is 95% full

CPU_PROCESS_BYTES = 400 * MIB
"""What an interpreter with torch and ray holds before the model is there; the measured peak of a CPU trial is
what a step adds to it."""


def usable_memory_bytes(
    kind: DeviceKind, memory_bytes: int, config: TrialConfig, measured_bytes: int | None = None
) -> int:
    """Bytes that one worker's allocator may reserve.

    Args:
        kind: of the device.
        memory_bytes: CUDA's total of one GPU, or the host's memory, which its workers share.
        config: of the step.
        measured_bytes: reserved and free in a trial on such a GPU (`measured_usable_bytes`).
    """
    if kind is DeviceKind.GPU:
        return max(1, memory_bytes - OUTSIDE_ALLOCATOR_BYTES if measured_bytes is None else measured_bytes)
    share_bytes = memory_bytes * config.node_count // config.gpu_count
    return max(1, int(HOST_USABLE_FRACTION * (share_bytes - CPU_PROCESS_BYTES)))


def measured_usable_bytes(measurements: Sequence[Measurement]) -> Mapping[str, int]:
    """By GPU, the least that a trial could reserve on a card of its own; without those that did not say."""
    found: dict[str, int] = {}
    for measurement in measurements:
        usable_bytes, gpu = measurement.usable_memory_bytes, measurement.config.gpu
        telemetry = measurement.telemetry
        is_shared = telemetry is not None and telemetry.other_process_count > 0
        if usable_bytes is not None and not is_shared:
            found[gpu] = min(usable_bytes, found.get(gpu, usable_bytes))
    return found


def is_fitting(peak: Estimate, usable_bytes: int, kind: DeviceKind) -> bool:
    """Whether the peak's high end fits; a GPU on which it was measured has shown that it does."""
    return (peak.basis is Basis.MEASURED and kind is DeviceKind.GPU) or peak.high <= usable_bytes
