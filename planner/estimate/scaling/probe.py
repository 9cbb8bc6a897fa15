"""What a short probe of a collective says about the links: their real rates, and silent fall-backs.

A trial of two or more workers times a few message sizes, as nccl-tests does. The times correct the rates
that `collectives` takes from data sheets (`scaling.fit_scaling`), and name a link that is far too slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalogs.gpus import DeviceKind, Gpu
from planner.estimate.scaling.collectives import (
    Fabric,
    Transport,
    bus_bytes_per_s,
    fabric_of,
    traffic_fraction,
)
from planner.estimate.setting import hardware_measured, vcpus_used
from planner.modes.terms import CollectiveOperation, Group
from trials.api import LinkProbe, Measurement

FALLBACK_FRACTION = 0.25  # a link that reaches less than this of what it should is named


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveProbe:
    """Measured collectives over one group of ranks: pairs of message bytes and seconds (medians)."""

    collective: CollectiveOperation
    group: Group
    samples: tuple[tuple[int, float], ...]

    @property
    def bus_bytes_per_s(self) -> float:
        """Of the largest message: what nccl-tests calls bus bandwidth."""
        size, seconds = max(self.samples)
        return traffic_fraction(self.collective, self.group.rank_count) * size / seconds


def probes_of(links: LinkProbe) -> tuple[CollectiveProbe, ...]:
    """What a trial measured, by collective."""
    group = Group(rank_count=links.rank_count, node_count=links.node_count)
    samples: dict[CollectiveOperation, list[tuple[int, float]]] = {}
    for one in links.times:
        samples.setdefault(CollectiveOperation(one.collective.value), []).append(
            (one.message_bytes, one.median_s)
        )
    return tuple(
        CollectiveProbe(collective=collective, group=group, samples=tuple(found))
        for collective, found in samples.items()
    )


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


def slow_links(measurements: Sequence[Measurement], gpus: Mapping[str, Gpu]) -> tuple[LinkFinding, ...]:
    """The links between GPUs that trials found far slower than the catalog's figures, each once."""
    found: dict[tuple[str, Group], LinkFinding] = {}
    for one in measurements:
        gpu = gpus.get(one.config.gpu)
        if one.links is None or gpu is None or gpu.kind is DeviceKind.CPU:
            continue
        fabric = fabric_of(hardware_measured(gpu, vcpus_used(one)))
        for probe in probes_of(one.links):
            finding = (
                find_slow_link(probe, fabric) if probe.collective is CollectiveOperation.ALL_REDUCE else None
            )
            if finding is not None:
                found[gpu.name, probe.group] = finding
    return tuple(found.values())
