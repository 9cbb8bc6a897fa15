"""The CPUs of the cluster as one type of device, for benchmarks whose trials need no catalog."""

from __future__ import annotations

from trials.cluster.discovery import discover
from trials.devices import DeviceGroup

CPU = "CPU"


def cpu_group() -> DeviceGroup:
    """All nodes of the cluster that this process is attached to."""
    nodes = discover()
    return DeviceGroup(gpu=CPU, is_cpu=True, device_name=nodes[0].device_name, nodes=nodes)
