"""Asks every node of the attached cluster which devices it has, and waits for them to be free."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray._private.state import available_resources_per_node  # no public call says what is free per node
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trials.devices import DeviceGroup, Node
from trials.errors import TrialsError
from trials.machine.identity import Machine, read_machine

Probe = Callable[[Mapping[str, Any]], Machine]
"""What a node is, asked on that node with its entry of ``ray.nodes()``; fake clusters bring their own."""

_TYPE_PREFIX = "accelerator_type:"
_POLL_S = 1.0


def ignore(text: str) -> None:
    """Takes a message and does nothing: the default for callbacks."""
    del text


def probe_node(entry: Mapping[str, Any]) -> Machine:
    """The real probe: NVML and the operating system of the node it runs on."""
    del entry
    return read_machine()


def discover(
    *,
    probe: Probe = probe_node,
    timeout_s: float = 60.0,
    on_problem: Callable[[str], None] = ignore,
) -> tuple[Node, ...]:
    """The alive nodes and their devices. Nodes are asked side by side, none for longer than ``timeout_s``.

    Args:
        probe: runs on each node, pinned there, taking no CPU or GPU from anyone.
        timeout_s: after which a node that does not answer is left out.
        on_problem: is told, in words, of each node that is left out.

    Raises:
        TrialsError: when no node answers.
    """
    entries = {entry["NodeID"]: entry for entry in ray.nodes() if entry["Alive"]}
    refs = {_ask(entry, probe): entry for entry in entries.values()}
    answered, silent = ray.wait(list(refs), num_returns=len(refs), timeout=timeout_s)
    nodes = []
    for ref in answered:
        entry = refs[ref]
        try:
            nodes.append(node_of(entry, ray.get(ref)))
        except ray.exceptions.RayError as error:
            on_problem(f"{entry['NodeManagerHostname']} is left out: {_last_line(error)}")
    for ref in silent:
        ray.cancel(ref, force=True)
        on_problem(
            f"{refs[ref]['NodeManagerHostname']} is left out: it did not answer within {timeout_s:.0f} s"
        )
    if not nodes:
        raise TrialsError(
            "no node of the cluster answered what devices it has; check `ray status`, and that the nodes run"
            " the same Ray and Python as this machine"
        )
    order = list(entries)
    return tuple(sorted(nodes, key=lambda node: order.index(node.node_id)))


def alive_nodes() -> frozenset[str]:
    """Ids of the nodes that are there now; takes milliseconds."""
    return frozenset(str(entry["NodeID"]) for entry in ray.nodes() if entry["Alive"])


def node_of(entry: Mapping[str, Any], machine: Machine) -> Node:
    """One node from what Ray may schedule on it and from what it says of itself."""
    resources = entry["Resources"]
    gpu_count = int(resources.get("GPU", 0))
    names = sorted({card.name for card in machine.cards})
    if not gpu_count:
        name, memory_bytes = machine.cpu_name, machine.host_memory_bytes
    elif names:
        name = " + ".join(names)  # several kinds in one node match no catalog name, and are reported
        memory_bytes = min(card.memory_bytes for card in machine.cards)
    else:
        name, memory_bytes = f"GPU of unknown name ({machine.why_no_cards or 'NVML lists none'})", 0
    types = [key.removeprefix(_TYPE_PREFIX) for key in resources if key.startswith(_TYPE_PREFIX)]
    return Node(
        node_id=entry["NodeID"],
        hostname=entry["NodeManagerHostname"],
        device_name=name,
        device_memory_bytes=memory_bytes,
        gpu_count=gpu_count,
        cpu_count=int(resources.get("CPU", 0)),
        accelerator_type=types[0] if gpu_count and types else None,
        is_mig=gpu_count > 0 and any(card.is_mig for card in machine.cards),
        versions=machine.versions,
        has_compiler=machine.has_compiler,
    )


def free_counts(nodes: Sequence[Node], *, is_cpu: bool) -> dict[str, int]:
    """Devices of each alive node that nobody holds now: GPUs, or CPUs; a node that left is absent."""
    free = available_resources_per_node()
    alive = {entry["NodeID"] for entry in ray.nodes() if entry["Alive"]}
    kind = "CPU" if is_cpu else "GPU"
    return {
        node.node_id: int(free.get(node.node_id, {}).get(kind, 0)) for node in nodes if node.node_id in alive
    }


def wait_for_devices(
    group: DeviceGroup,
    worker_count: int,
    *,
    node_count: int = 1,
    timeout_s: float,
    on_wait: Callable[[str], None] = ignore,
) -> bool:
    """Wait until ``worker_count`` devices are free on each of ``node_count`` nodes; False when time is up.

    ``on_wait`` is told once, and whenever the number of free devices changes.
    """
    deadline_s = time.monotonic() + timeout_s
    told = -1
    while True:
        counts = sorted(free_counts(group.nodes, is_cpu=group.is_cpu).values(), reverse=True)
        free = counts[node_count - 1] if len(counts) >= node_count else 0
        if free >= worker_count:
            return True
        if time.monotonic() >= deadline_s:
            return False
        if free != told:
            told = free
            where = "one node" if node_count == 1 else f"each of {node_count} nodes"
            on_wait(
                f"waiting for {worker_count} x {group.gpu} on {where}: {free} free now, the rest is in use"
            )
        time.sleep(min(_POLL_S, max(0.0, deadline_s - time.monotonic())))


def _ask(entry: Mapping[str, Any], probe: Probe) -> Any:
    pinned = NodeAffinitySchedulingStrategy(entry["NodeID"], soft=False)
    task = ray.remote(num_cpus=0, num_gpus=0, max_retries=0, scheduling_strategy=pinned)(_answer)
    return task.remote(probe, entry)


def _answer(probe: Probe, entry: Mapping[str, Any]) -> Machine:
    return probe(entry)


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
