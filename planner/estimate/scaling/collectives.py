"""Seconds that a collective operation takes: latency per hop and bytes over the slowest link (alpha-beta).

Message sizes are those of the whole tensor: what every rank ends up with (all-reduce, all-gather) or starts
from (reduce-scatter). Bandwidths are one direction. The formulas and hop latencies are those by which NCCL
itself chooses between its algorithms (src/graph/tuning.cc of NVIDIA/nccl, 2.8 and later):

* ring, R ranks on N nodes: 2(R-1) hops for all-reduce, R-1 for all-gather and reduce-scatter, of which
  2(N-1) or N-1 cross the network; every link carries 2(R-1)/R or (R-1)/R of the message;
* tree (all-reduce): up and down a tree, 2((R/N - 1) + log2 N) hops, and twice the message over the link.

A ring or tree is a pipeline, so its bandwidth is that of its slowest link (Patarasuk, Yuan 2009; Thakur,
Rabenseifner, Gropp 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from catalogs.gpus import DeviceKind, Link
from planner.estimate.values import Hardware
from planner.modes.terms import CollectiveOperation, Group


class Algorithm(StrEnum):
    """How the ranks are connected."""

    RING = "ring"
    TREE = "tree"


class Transport(StrEnum):
    """What carries the bytes of a hop."""

    NVLINK = "NVLink"
    PCIE = "PCIe"
    HOST = "host memory"
    RDMA = "InfiniBand, RoCE or EFA"
    TCP = "TCP over Ethernet"
    GLOO = "gloo between processes"


HOP_LATENCY_S = {
    Transport.NVLINK: 3.4e-6,  # tuning.cc hwLat, ring, Simple protocol
    Transport.PCIE: 5.7e-6,  # the same
    Transport.HOST: 10e-6,  # an estimate: two copies and a wake-up of the other process
    Transport.RDMA: 9.6e-6,  # tuning.cc hwLat, NET
    Transport.TCP: 100e-6,  # an estimate: half a round trip in one zone, the proxy's copies and wake-ups
    Transport.GLOO: 50e-6,  # an estimate: sockets between processes
}
LINK_EFFICIENCY = {
    Transport.NVLINK: 0.78,  # of the data sheet: tuning.cc caps A100's 300 GB/s at 235
    Transport.PCIE: 0.5,  # between 0.75 with peer access and 0.3 through host memory, as cloud cards often go
    Transport.HOST: 0.5,  # each byte crosses the host's memory twice
    Transport.RDMA: 0.9,  # headers of the wire, and what nccl-tests commonly reach
    Transport.TCP: 1.0,  # up to TCP_FLOW_BYTES_PER_S for each of TCP_FLOW_COUNT flows
    Transport.GLOO: 1.0,
}
COLLECTIVE_START_S = 8.4e-6  # tuning.cc baseLat, ring, Simple: launching one collective
RING_PLATEAU_FACTOR = 1.9  # tuning.cc: latency of all-reduce rings over several nodes, above 4 KiB per rank
_PLATEAU_FROM_BYTES_PER_RANK = 4096
TREE_BANDWIDTH_FRACTION = 0.9  # tuning.cc: of the ring's
TCP_FLOW_BYTES_PER_S = 0.625e9
"""What a provider grants one TCP flow: EC2 5 Gbit/s (10 in a placement group), whatever the instance has."""
TCP_FLOW_COUNT = 2  # at once in one direction, an estimate; more with NCCL_NSOCKS_PERTHREAD
GLOO_BYTES_PER_S = 1.5e9
HOST_BYTES_PER_S = 8e9  # copies through shared host memory, where the catalog has no link figure
DEFAULT_NETWORK_BYTES_PER_S = 1.25e9  # 10 Gbit/s, where the offer does not say
RDMA_FROM_BYTES_PER_S = 12.5e9  # 100 Gbit/s per node and up is sold with EFA, InfiniBand or RoCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One hop: achieved bytes per second in one direction, and seconds until the first byte arrives."""

    transport: Transport
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """How workers reach each other: within a node and between nodes.

    ``inter.bytes_per_s`` is a whole node's, shared by the rings that leave it.
    """

    intra: Channel
    inter: Channel

    def at_rates(self, *, intra: float, inter: float) -> Fabric:
        """The same links at these multiples of their bandwidths."""
        return Fabric(
            intra=replace(self.intra, bytes_per_s=self.intra.bytes_per_s * intra),
            inter=replace(self.inter, bytes_per_s=self.inter.bytes_per_s * inter),
        )


@lru_cache(maxsize=1024)
def fabric_of(hardware: Hardware) -> Fabric:
    """Links of an offer at the efficiencies that NCCL (on CPU: gloo) reaches on such links."""
    gpu, link = hardware.gpu, hardware.link
    figure = gpu.bytes_per_s_over(link) or (gpu.link_bytes_per_s if gpu.link is link else None)
    if gpu.kind is DeviceKind.CPU:
        intra = channel_of(Transport.GLOO, GLOO_BYTES_PER_S)
    elif figure is None:
        intra = channel_of(Transport.HOST, HOST_BYTES_PER_S)
    else:
        intra = channel_of(Transport.NVLINK if link is Link.NVLINK else Transport.PCIE, figure)
    network = hardware.network_bytes_per_s or DEFAULT_NETWORK_BYTES_PER_S
    transport = Transport.RDMA if network >= RDMA_FROM_BYTES_PER_S else Transport.TCP
    return Fabric(intra=intra, inter=channel_of(transport, network))


def channel_of(transport: Transport, link_bytes_per_s: float) -> Channel:
    """A link of this data-sheet bandwidth (one direction) at the rate and latency that are usual on it."""
    rate = link_bytes_per_s * LINK_EFFICIENCY[transport]
    if transport is Transport.TCP:
        rate = min(rate, TCP_FLOW_COUNT * TCP_FLOW_BYTES_PER_S)
    return Channel(transport=transport, bytes_per_s=rate, latency_s=HOP_LATENCY_S[transport])


def collective_s(
    collective: CollectiveOperation,
    message_bytes: float,
    group: Group,
    fabric: Fabric,
    algorithm: Algorithm | None = None,
) -> float:
    """Seconds of one collective over ``group``; the faster algorithm unless one is named.

    Args:
        collective: what is done.
        message_bytes: of the whole tensor (see the module's docstring).
        group: the ranks; one rank alone costs nothing.
        fabric: links within and between nodes.
        algorithm: tree exists for all-reduce only.
    """
    if group.rank_count <= 1:
        return 0.0
    if collective is CollectiveOperation.SEND:
        hop = fabric.inter if group.node_count > 1 else fabric.intra
        return COLLECTIVE_START_S + hop.latency_s + message_bytes / hop.bytes_per_s
    ring_s = _ring_s(collective, message_bytes, group, fabric)
    if collective is not CollectiveOperation.ALL_REDUCE or algorithm is Algorithm.RING:
        return ring_s
    tree_s = _tree_s(message_bytes, group, fabric)
    return tree_s if algorithm is Algorithm.TREE else min(ring_s, tree_s)


def bus_bytes_per_s(group: Group, fabric: Fabric) -> float:
    """Bandwidth of the slowest link that a ring through ``group`` uses."""
    if group.node_count == 1:
        return fabric.intra.bytes_per_s
    if group.ranks_per_node == 1:
        return fabric.inter.bytes_per_s
    return min(fabric.intra.bytes_per_s, fabric.inter.bytes_per_s)


def traffic_fraction(collective: CollectiveOperation, rank_count: int) -> float:
    """Share of the message that every link of a ring carries: "bus bandwidth" over "algorithm bandwidth"."""
    if rank_count <= 1:
        return 0.0
    if collective is CollectiveOperation.SEND:
        return 1.0
    once = (rank_count - 1) / rank_count
    return 2.0 * once if collective is CollectiveOperation.ALL_REDUCE else once


def _ring_s(collective: CollectiveOperation, message_bytes: float, group: Group, fabric: Fabric) -> float:
    rounds = 2 if collective is CollectiveOperation.ALL_REDUCE else 1
    hops, crossings = rounds * (group.rank_count - 1), rounds * (group.node_count - 1)
    latency_s = (hops - crossings) * fabric.intra.latency_s + crossings * fabric.inter.latency_s
    if (
        collective is CollectiveOperation.ALL_REDUCE
        and group.node_count > 1
        and message_bytes >= _PLATEAU_FROM_BYTES_PER_RANK * group.rank_count
    ):
        latency_s *= RING_PLATEAU_FACTOR
    carried = traffic_fraction(collective, group.rank_count) * message_bytes
    return COLLECTIVE_START_S + latency_s + carried / bus_bytes_per_s(group, fabric)


def _tree_s(message_bytes: float, group: Group, fabric: Fabric) -> float:
    inside = group.ranks_per_node - 1
    across = math.log2(group.node_count)
    latency_s = 2.0 * (inside * fabric.intra.latency_s + across * fabric.inter.latency_s)
    bandwidth = TREE_BANDWIDTH_FRACTION * bus_bytes_per_s(group, fabric)
    return COLLECTIVE_START_S + latency_s + 2.0 * message_bytes / bandwidth
