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

from catalogs.gpus import DeviceKind, Link
from planner.estimate.values import Hardware


class Collective(StrEnum):
    """What the ranks do together."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    SEND = "send"  # from one rank to the next, as between pipeline stages


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
    Transport.HOST: 10e-6,  # two copies and a wake-up of the other process
    Transport.RDMA: 9.6e-6,  # tuning.cc hwLat, NET
    Transport.TCP: 75e-6,  # half a round trip in one zone (25 to 50 us), proxy wake-ups, copies by the host
    Transport.GLOO: 50e-6,
}
LINK_EFFICIENCY = {
    Transport.NVLINK: 0.78,  # of the data sheet: tuning.cc caps A100's 300 GB/s at 235
    Transport.PCIE: 0.75,  # 12 of 15.75 GB/s: packet headers and flow control
    Transport.HOST: 0.5,  # each byte crosses the host's memory twice
    Transport.RDMA: 0.9,  # wire headers; nccl-tests on 8 x 200 Gbit/s: 180 to 190 of 200 GB/s
    Transport.TCP: 0.5,  # kernel copies; a single flow is capped at 5 or 10 Gbit/s on EC2
    Transport.GLOO: 1.0,
}
COLLECTIVE_START_S = 8.4e-6  # tuning.cc baseLat, ring, Simple: launching one collective
TREE_BANDWIDTH_FRACTION = 0.9  # tuning.cc: of the ring's
GLOO_BYTES_PER_S = 1.5e9
HOST_BYTES_PER_S = 8e9  # copies through shared host memory, where the catalog has no link figure
DEFAULT_NETWORK_BYTES_PER_S = 1.25e9  # 10 Gbit/s, where the offer does not say
RDMA_FROM_BYTES_PER_S = 12.5e9  # 100 Gbit/s per node and up is sold with EFA, InfiniBand or RoCE
FALLBACK_FRACTION = 0.25  # a link that reaches less than this of what it should is named


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks that communicate, spread evenly over nodes."""

    rank_count: int
    node_count: int = 1

    @property
    def ranks_per_node(self) -> int:
        """Of the fullest node."""
        return math.ceil(self.rank_count / self.node_count)


def fabric_of(hardware: Hardware) -> Fabric:
    """Links of an offer at the efficiencies that NCCL (on CPU: gloo) reaches on such links."""
    if hardware.gpu.kind is DeviceKind.CPU:
        intra = _channel(Transport.GLOO, GLOO_BYTES_PER_S)
    elif hardware.link is Link.NVLINK and hardware.gpu.nvlink_bytes_per_s:
        intra = _channel(Transport.NVLINK, hardware.gpu.nvlink_bytes_per_s)
    elif hardware.link is Link.PCIE and hardware.gpu.pcie_bytes_per_s:
        intra = _channel(Transport.PCIE, hardware.gpu.pcie_bytes_per_s)
    else:
        intra = _channel(Transport.HOST, HOST_BYTES_PER_S)
    network = hardware.network_bytes_per_s or DEFAULT_NETWORK_BYTES_PER_S
    transport = Transport.RDMA if network >= RDMA_FROM_BYTES_PER_S else Transport.TCP
    return Fabric(intra=intra, inter=_channel(transport, network))


def _channel(transport: Transport, link_bytes_per_s: float) -> Channel:
    return Channel(
        transport=transport,
        bytes_per_s=link_bytes_per_s * LINK_EFFICIENCY[transport],
        latency_s=HOP_LATENCY_S[transport],
    )


def collective_s(
    collective: Collective,
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
    if collective is Collective.SEND:
        hop = fabric.inter if group.node_count > 1 else fabric.intra
        return COLLECTIVE_START_S + hop.latency_s + message_bytes / hop.bytes_per_s
    ring_s = _ring_s(collective, message_bytes, group, fabric)
    if collective is not Collective.ALL_REDUCE or algorithm is Algorithm.RING:
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


def traffic_fraction(collective: Collective, rank_count: int) -> float:
    """Share of the message that every link of a ring carries: "bus bandwidth" over "algorithm bandwidth"."""
    if rank_count <= 1:
        return 0.0
    if collective is Collective.SEND:
        return 1.0
    once = (rank_count - 1) / rank_count
    return 2.0 * once if collective is Collective.ALL_REDUCE else once


def _ring_s(collective: Collective, message_bytes: float, group: Group, fabric: Fabric) -> float:
    rounds = 2 if collective is Collective.ALL_REDUCE else 1
    hops, crossings = rounds * (group.rank_count - 1), rounds * (group.node_count - 1)
    latency_s = (hops - crossings) * fabric.intra.latency_s + crossings * fabric.inter.latency_s
    carried = traffic_fraction(collective, group.rank_count) * message_bytes
    return COLLECTIVE_START_S + latency_s + carried / bus_bytes_per_s(group, fabric)


def _tree_s(message_bytes: float, group: Group, fabric: Fabric) -> float:
    inside = group.ranks_per_node - 1
    across = math.log2(group.node_count)
    latency_s = 2.0 * (inside * fabric.intra.latency_s + across * fabric.inter.latency_s)
    bandwidth = TREE_BANDWIDTH_FRACTION * bus_bytes_per_s(group, fabric)
    return COLLECTIVE_START_S + latency_s + 2.0 * message_bytes / bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveProbe:
    """Measured collectives over one group of ranks: pairs of message bytes and seconds (medians)."""

    collective: Collective
    group: Group
    samples: tuple[tuple[int, float], ...]

    @property
    def bus_bytes_per_s(self) -> float:
        """Of the largest message: what nccl-tests calls bus bandwidth."""
        size, seconds = max(self.samples)
        return traffic_fraction(self.collective, self.group.rank_count) * size / seconds


def calibrated(fabric: Fabric, probe: CollectiveProbe) -> Fabric:
    """The fabric with the bandwidth and hop latency that ``probe`` measured on its bottleneck link.

    Least squares of relative error through the samples, both terms non-negative; with a single size the
    hop latency stays and the bandwidth explains the rest.
    """
    sizes = [float(size) for size, _ in probe.samples]
    rounds = 2 if probe.collective is Collective.ALL_REDUCE else 1
    is_across = probe.group.node_count > 1
    hop = fabric.inter if is_across else fabric.intra
    hops = rounds * ((probe.group.node_count if is_across else probe.group.rank_count) - 1)
    fraction = traffic_fraction(probe.collective, probe.group.rank_count)
    start_s = hops * hop.latency_s + COLLECTIVE_START_S
    if len(set(sizes)) > 1:
        slope_s_per_byte, start_s = _line(probe.samples)
    else:
        size, seconds = probe.samples[0]
        slope_s_per_byte = max(seconds - start_s, 0.1 * seconds) / size
    measured = replace(
        hop,
        bytes_per_s=fraction / slope_s_per_byte,
        latency_s=max(start_s - COLLECTIVE_START_S, 0.0) / hops,
    )
    return replace(fabric, inter=measured) if is_across else replace(fabric, intra=measured)


def _line(samples: tuple[tuple[int, float], ...]) -> tuple[float, float]:
    """Seconds per byte (positive) and at zero bytes (non-negative), least squares of relative error."""
    rows = [(size / seconds, 1.0 / seconds) for size, seconds in samples]
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(row[0] for row in rows), sum(row[1] for row in rows)
    determinant = aa * bb - ab * ab
    slope, start = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    if start < 0:
        return a / aa, 0.0
    if slope <= 0:
        size, seconds = max(samples)
        return 0.1 * seconds / size, 0.9 * seconds  # latency hides the bandwidth: a bound, not a figure
    return slope, start


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFinding:
    """A link that is much slower than what was rented, in words for the report."""

    transport: Transport  # that the offer promises
    expected_bytes_per_s: float
    measured_bytes_per_s: float
    message: str

    @property
    def fraction(self) -> float:
        """Measured over expected."""
        return self.measured_bytes_per_s / self.expected_bytes_per_s


def find_slow_link(probe: CollectiveProbe, fabric: Fabric) -> LinkFinding | None:
    """Whether the probed link reaches far less than ``fabric`` (from the offer's figures) says.

    Between nodes with RDMA this is the silent fall-back to TCP: NCCL finds no usable InfiniBand, RoCE or EFA
    device (driver, plugin or container permission missing) and goes on over sockets without an error.
    """
    expected = bus_bytes_per_s(probe.group, fabric)
    measured = probe.bus_bytes_per_s
    if measured >= FALLBACK_FRACTION * expected:
        return None
    is_across = probe.group.node_count > 1
    transport = (fabric.inter if is_across else fabric.intra).transport
    advice = {
        Transport.RDMA: "NCCL has probably fallen back to TCP: check NCCL_DEBUG=INFO for 'NET/Socket', the "
        "EFA or InfiniBand plugin in the container, and access to /dev/infiniband",
        Transport.TCP: "one TCP flow is capped by the provider (5 Gbit/s on EC2 outside a placement group): "
        "check NCCL_SOCKET_IFNAME, NCCL_NSOCKS_PERTHREAD and the placement of the nodes",
        Transport.NVLINK: "peer access over NVLink is not used: check nvidia-smi topo -m and "
        "NCCL_P2P_DISABLE",
    }.get(transport, "peer access is not used: check nvidia-smi topo -m and /dev/shm of the container")
    message = (
        f"{probe.collective} over {probe.group.rank_count} ranks on {probe.group.node_count} node(s) reached "
        f"{measured / 1e9:.1f} of {expected / 1e9:.1f} GB/s expected of {transport}; {advice}"
    )
    return LinkFinding(
        transport=transport, expected_bytes_per_s=expected, measured_bytes_per_s=measured, message=message
    )
