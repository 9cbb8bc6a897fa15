"""Where a group's workers go, and what they ask Ray for."""

from __future__ import annotations

from collections.abc import Sequence

from trials.cluster.discovery import free_counts
from trials.devices import DeviceGroup, Node
from trials.trial import TrialConfig


def capacity(node: Node, group: DeviceGroup) -> int:
    """Workers that a node takes: one per GPU, or one per core on CPU."""
    return node.cpu_count if group.is_cpu else node.gpu_count


def refusal(group: DeviceGroup, config: TrialConfig) -> str | None:
    """Why the group's nodes could never take the trial, however idle; None where they can."""
    per_node, rest = divmod(config.gpu_count, config.node_count)
    if rest:
        return f"{config.gpu_count} workers cannot be shared equally by {config.node_count} nodes"
    if sum(capacity(node, group) >= per_node for node in group.nodes) >= config.node_count:
        return None
    counts = ", ".join(str(capacity(node, group)) for node in group.nodes)
    return (
        f"{config.gpu_count} x {config.gpu} on {config.node_count} node(s) is more than the cluster has"
        f" ({counts} by node)"
    )


def backend(nodes: Sequence[Node], *, is_cpu: bool) -> str:
    """nccl for tensors on GPUs, gloo for those on CPU; a torch built without CUDA has no nccl."""
    has_cuda = not is_cpu and not any((node.versions.torch or "").endswith("+cpu") for node in nodes)
    return "cpu:gloo,cuda:nccl" if has_cuda else "gloo"


def worker_resources(nodes: Sequence[Node], held: int, *, is_cpu: bool) -> dict[str, float]:
    """What each of ``held`` workers per node asks Ray for.

    CPUs are shared equally; with GPUs, each takes its GPU's share of them. Where others hold cores already, a
    GPU worker is content with one: the cores are asked for to keep others away from the input pipeline, not
    because Ray would limit their use.
    """
    if is_cpu:
        return {"CPU": min(node.cpu_count for node in nodes) / held}
    free = free_counts(nodes, is_cpu=True)
    share = min(node.cpu_count // max(1, node.gpu_count) for node in nodes)
    if any(free.get(node.node_id, 0) < share * held for node in nodes):
        share = 1 if all(free.get(node.node_id, 0) >= held for node in nodes) else 0
    return {"GPU": 1.0, "CPU": float(share)} if share else {"GPU": 1.0}
