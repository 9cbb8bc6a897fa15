"""A configuration without its batch: what shares a line of step times, and a line of peak memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalogs.gpus import DeviceKind, Gpu, Link
from planner.estimate.software_stack import SoftwareStack, Stacks, stack_of
from planner.estimate.values import Hardware
from trials.api import Measurement, TrialConfig

_MEASURED_NETWORK_BYTES_PER_S = 50e9
"""Between measured nodes with NVLink, which are sold with 400 Gbit/s or more; nobody measured it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything of a configuration but the batch: measurements of one setting share a line."""

    gpu: str
    vcpus: int | None = None  # of the node, on CPU; None also where it does not matter
    older_stack: SoftwareStack | None = None  # None for the newest that the GPU was measured under
    gpu_count: int
    node_count: int
    precision: str
    parallelism: str
    techniques: tuple[str, ...]


def technique_of(config: TrialConfig) -> Setting:
    """The setting of ``config`` on whatever host: what its failures hold for."""
    return Setting(
        gpu=config.gpu,
        gpu_count=config.gpu_count,
        node_count=config.node_count,
        precision=config.precision,
        parallelism=config.parallelism,
        techniques=config.techniques,
    )


def setting_of(config: TrialConfig, gpu: Gpu, vcpus: int | None) -> Setting:
    """The setting of ``config`` on a node with ``vcpus``: on CPU only, and in whole ones for each worker."""
    technique = technique_of(config)
    if gpu.kind is not DeviceKind.CPU or vcpus is None:
        return technique
    workers = _workers_per_node(config)
    return replace(technique, vcpus=max(1, vcpus // workers) * workers)


def setting_measured(measurement: Measurement, gpu: Gpu, changes: Stacks) -> Setting:
    """The setting of a measurement, with the software stack where that is an older one."""
    setting = setting_of(measurement.config, gpu, vcpus_used(measurement))
    stack = stack_of(measurement.environment)
    return replace(setting, older_stack=stack) if (gpu.name, stack) in changes else setting


def vcpus_used(measurement: Measurement) -> int:
    """Of a node, on CPU: the cores that Ray gave the workers there, which need not be all it has."""
    threads = measurement.environment.threads_per_worker
    if threads is None:
        return measurement.environment.host_cpu_count
    return threads * _workers_per_node(measurement.config)


def _workers_per_node(config: TrialConfig) -> int:
    return max(1, config.gpu_count // config.node_count)


def hardware_measured(gpu: Gpu, vcpus: int | None) -> Hardware:
    """What a trial ran on: the chip with its own link, and the host's cores."""
    return Hardware(
        gpu=gpu,
        link=gpu.link,
        vcpus=vcpus,
        network_bytes_per_s=_MEASURED_NETWORK_BYTES_PER_S if gpu.link is Link.NVLINK else None,
    )
