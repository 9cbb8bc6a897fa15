"""What a short probe of a collective says about the links: their real rates, and silent fall-backs.

A probe times a few message sizes over two or more workers, as nccl-tests does. It replaces the rates that
`collectives` takes from data sheets, and names a link that is far slower than what was rented.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.estimate.collectives import (
    COLLECTIVE_START_S,
    Collective,
    Fabric,
    Group,
    Transport,
    bus_bytes_per_s,
    traffic_fraction,
)

FALLBACK_FRACTION = 0.25  # a link that reaches less than this of what it should is named


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
