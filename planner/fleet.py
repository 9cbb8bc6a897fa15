"""The cluster's nodes as groups of catalog GPUs, and what could not be used, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from catalogs.gpus import Gpu, cpu_class, match_device
from planner.errors import PlannerError
from trials.api import DeviceGroup, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What trials may run on."""

    groups: tuple[DeviceGroup, ...]
    notes: tuple[str, ...]  # devices that are not used, and why


def fleet_of(nodes: Sequence[Node], gpus: Mapping[str, Gpu], machine: str) -> Fleet:
    """Group nodes by catalog GPU type; without any GPU, by the CPU class of ``machine``.

    Args:
        nodes: alive nodes as discovered.
        gpus: catalog by name.
        machine: architecture as `platform.machine` says, for nodes without GPUs.

    Raises:
        PlannerError: when no device can be used; the message names each and the way out.
    """
    by_gpu: dict[str, list[Node]] = {}
    notes: list[str] = []
    for node in nodes:
        if not node.gpu_count:
            continue
        gpu = None if node.is_mig else match_device(node.device_name, node.device_memory_bytes, gpus)
        if gpu is None:
            notes.append(_unmatched(node))
        else:
            by_gpu.setdefault(gpu.name, []).append(node)
    if by_gpu:
        groups = [_group(gpu, members, is_cpu=False) for gpu, members in sorted(by_gpu.items())]
        return Fleet(groups=tuple(groups), notes=tuple(notes))
    if notes:
        raise PlannerError(
            "no GPU of the cluster can be used: "
            + "; ".join(notes)
            + ". Name other GPUs by --address, or measure on the CPU: CUDA_VISIBLE_DEVICES= planner sweep"
        )
    hosts = [node for node in nodes if node.cpu_count]
    if not hosts:
        raise PlannerError("the cluster has neither GPUs nor CPUs to run a trial on; check `ray status`")
    # one host: CPU workers on several hosts would time the network between them and not the machine
    largest = max(hosts, key=lambda node: node.cpu_count)
    return Fleet(groups=(_group(cpu_class(machine, gpus).name, [largest], is_cpu=True),), notes=())


def limited(fleet: Fleet, gpu_count: int, free: Mapping[str, int], only: Collection[str] = ()) -> Fleet:
    """The fleet with at most ``gpu_count`` GPUs in all, dealt to its types in turn, the larger ones first.

    Args:
        fleet: as found; CPU machines are no GPUs and stay.
        gpu_count: of all nodes together.
        free: GPUs that nobody else holds, by node id; nodes with the most of them are used first.
        only: catalog names of the types that are wanted; empty, or none of them there: all.
    """
    types = [group for group in fleet.groups if not group.is_cpu]
    wanted = [group for group in types if group.gpu in only] or types
    if sum(group.worker_count_max for group in wanted) <= gpu_count:
        return fleet
    shares = dict.fromkeys((group.gpu for group in wanted), 0)
    in_turn = sorted(wanted, key=lambda group: -group.worker_count_max)
    while sum(shares.values()) < gpu_count:
        for group in in_turn:
            if shares[group.gpu] < group.worker_count_max and sum(shares.values()) < gpu_count:
                shares[group.gpu] += 1
    groups = [_with_share(group, shares[group.gpu], free) for group in wanted if shares[group.gpu]]
    notes = [
        f"of {group.worker_count_max} x {group.gpu}, {shares[group.gpu] or 'none'} may be used (--gpu-count "
        f"{gpu_count})"
        for group in wanted
    ]
    return Fleet(groups=tuple(groups), notes=(*fleet.notes, *notes))


def _with_share(group: DeviceGroup, count: int, free: Mapping[str, int]) -> DeviceGroup:
    nodes: list[Node] = []
    for node in sorted(group.nodes, key=lambda node: (-free.get(node.node_id, 0), -node.gpu_count)):
        if share := min(node.gpu_count, count - sum(used.gpu_count for used in nodes)):
            nodes.append(replace(node, gpu_count=share))
    return replace(group, nodes=tuple(nodes))


def _group(gpu: str, nodes: list[Node], *, is_cpu: bool) -> DeviceGroup:
    return DeviceGroup(gpu=gpu, is_cpu=is_cpu, device_name=nodes[0].device_name, nodes=tuple(nodes))


def _unmatched(node: Node) -> str:
    if node.is_mig:
        return (
            f"{node.hostname}: {node.device_name} is divided into MIG slices, which are no whole cards; "
            "switch MIG off there to measure it"
        )
    gib = node.device_memory_bytes / 2**30
    return (
        f"{node.hostname}: {node.gpu_count} x {node.device_name} ({gib:.0f} GiB) is not in the catalog "
        "(`planner catalog --gpus` lists it) and is left out"
    )
