from __future__ import annotations

from dataclasses import replace

import pytest

from catalogs.gpus import Link
from planner.estimate.scaling.collectives import (
    COLLECTIVE_START_S,
    RING_PLATEAU_FACTOR,
    Algorithm,
    Channel,
    CollectiveOperation,
    Fabric,
    Group,
    Transport,
    bus_bytes_per_s,
    collective_s,
    fabric_of,
    traffic_fraction,
)
from planner.estimate.scaling.probe import CollectiveProbe, find_slow_link, slow_links
from planner.estimate.values import Hardware
from tests.builders import make_config, make_cpu, make_gpu, make_measurement
from trials.extras import Collective as Probed
from trials.extras import CollectiveTimes, LinkProbe

FABRIC = Fabric(
    intra=Channel(transport=Transport.NVLINK, bytes_per_s=200e9, latency_s=4e-6),
    inter=Channel(transport=Transport.RDMA, bytes_per_s=50e9, latency_s=10e-6),
)
NODE = Group(rank_count=8)
TWO_NODES = Group(rank_count=16, node_count=2)


@pytest.mark.parametrize("collective", list(CollectiveOperation))
def test_one_rank_alone_waits_for_nobody(collective: CollectiveOperation) -> None:
    assert collective_s(collective, 1e9, Group(rank_count=1), FABRIC) == 0.0


def test_a_ring_carries_two_passes_of_all_but_one_share() -> None:
    seconds = collective_s(CollectiveOperation.ALL_REDUCE, 8e9, NODE, FABRIC, Algorithm.RING)

    assert seconds == pytest.approx(COLLECTIVE_START_S + 14 * 4e-6 + 14 / 8 * 8e9 / 200e9)


def test_an_all_gather_is_one_pass_and_crosses_the_network_once_per_node_boundary() -> None:
    seconds = collective_s(CollectiveOperation.ALL_GATHER, 8e9, TWO_NODES, FABRIC)

    assert seconds == pytest.approx(COLLECTIVE_START_S + 14 * 4e-6 + 10e-6 + 15 / 16 * 8e9 / 50e9)


def test_reduce_scatter_and_all_gather_make_an_all_reduce() -> None:
    parts = sum(
        collective_s(one, 8e9, NODE, FABRIC)
        for one in (CollectiveOperation.REDUCE_SCATTER, CollectiveOperation.ALL_GATHER)
    )
    whole = collective_s(CollectiveOperation.ALL_REDUCE, 8e9, NODE, FABRIC, Algorithm.RING)

    assert parts - whole == pytest.approx(COLLECTIVE_START_S)


def test_rings_over_several_nodes_pay_the_plateau_of_nccl() -> None:
    large = collective_s(CollectiveOperation.ALL_REDUCE, 16 * 4096, TWO_NODES, FABRIC, Algorithm.RING)
    small = collective_s(CollectiveOperation.ALL_REDUCE, 16 * 4096 - 1, TWO_NODES, FABRIC, Algorithm.RING)

    assert large - small == pytest.approx((RING_PLATEAU_FACTOR - 1) * (28 * 4e-6 + 2 * 10e-6), rel=1e-3)


def test_trees_win_for_small_messages_on_many_nodes_and_rings_for_large_ones() -> None:
    group = Group(rank_count=512, node_count=64)

    def both(size: float) -> list[float]:
        return [collective_s(CollectiveOperation.ALL_REDUCE, size, group, FABRIC, one) for one in Algorithm]

    ring_small, tree_small = both(64e3)
    ring_large, tree_large = both(10e9)
    assert tree_small < ring_small
    assert ring_large < tree_large
    assert collective_s(CollectiveOperation.ALL_REDUCE, 64e3, group, FABRIC) == tree_small
    assert collective_s(CollectiveOperation.ALL_REDUCE, 10e9, group, FABRIC) == ring_large


def test_a_send_takes_the_link_between_the_two() -> None:
    inside = collective_s(CollectiveOperation.SEND, 2e9, Group(rank_count=2), FABRIC)
    across = collective_s(CollectiveOperation.SEND, 2e9, Group(rank_count=2, node_count=2), FABRIC)

    assert inside == pytest.approx(COLLECTIVE_START_S + 4e-6 + 0.01)
    assert across == pytest.approx(COLLECTIVE_START_S + 10e-6 + 0.04)


def test_the_bottleneck_is_the_slowest_link_that_is_used() -> None:
    slow_bus = replace(FABRIC, intra=replace(FABRIC.intra, bytes_per_s=10e9))

    assert bus_bytes_per_s(TWO_NODES, FABRIC) == 50e9
    assert bus_bytes_per_s(TWO_NODES, slow_bus) == 10e9
    assert bus_bytes_per_s(Group(rank_count=2, node_count=2), slow_bus) == 50e9


@pytest.mark.parametrize(
    ("collective", "fraction"),
    [
        (CollectiveOperation.ALL_REDUCE, 1.5),
        (CollectiveOperation.ALL_GATHER, 0.75),
        (CollectiveOperation.SEND, 1.0),
    ],
)
def test_traffic_is_that_of_nccl_tests(collective: CollectiveOperation, fraction: float) -> None:
    assert traffic_fraction(collective, 4) == fraction


def test_an_nvlink_offer_with_a_fast_network_has_rdma() -> None:
    gpu = make_gpu(nvlink_bytes_per_s=300e9)

    fabric = fabric_of(Hardware(gpu=gpu, link=Link.NVLINK, network_bytes_per_s=50e9))

    assert (fabric.intra.transport, fabric.inter.transport) == (Transport.NVLINK, Transport.RDMA)
    assert fabric.intra.bytes_per_s == pytest.approx(234e9)  # what NCCL caps an A100 at: 235 GB/s
    assert fabric.inter.bytes_per_s == pytest.approx(45e9)


def test_plain_ethernet_is_capped_by_its_flows() -> None:
    gpu = make_gpu(pcie_bytes_per_s=15.75e9)

    wide = fabric_of(Hardware(gpu=gpu, link=Link.PCIE, network_bytes_per_s=6.25e9))
    narrow = fabric_of(Hardware(gpu=gpu, link=Link.PCIE, network_bytes_per_s=0.5e9))

    assert wide.inter.transport is Transport.TCP
    assert wide.inter.bytes_per_s == 1.25e9
    assert narrow.inter.bytes_per_s == 0.5e9


def test_an_unknown_link_goes_through_host_memory_and_cpus_talk_by_gloo() -> None:
    hardware = Hardware(gpu=make_gpu(), link=Link.NONE)

    assert fabric_of(hardware).intra.transport is Transport.HOST
    assert fabric_of(Hardware(gpu=make_cpu(), link=Link.NONE)).intra.transport is Transport.GLOO


def test_a_silent_fall_back_to_tcp_is_named() -> None:
    tcp = FABRIC.at_rates(intra=1.0, inter=0.02)  # 1 GB/s where 50 were promised
    seconds = collective_s(CollectiveOperation.ALL_REDUCE, 1 << 28, TWO_NODES, tcp)
    probe = CollectiveProbe(
        collective=CollectiveOperation.ALL_REDUCE, group=TWO_NODES, samples=((1 << 28, seconds),)
    )

    finding = find_slow_link(probe, FABRIC)

    assert finding is not None
    assert finding.transport is Transport.RDMA
    assert finding.fraction == pytest.approx(0.02, rel=0.1)
    assert "fallen back to TCP" in finding.message
    assert "1.0 of 50.0 GB/s" in finding.message


def test_a_link_near_its_figure_is_not_a_finding() -> None:
    seconds = collective_s(
        CollectiveOperation.ALL_REDUCE, 1 << 28, TWO_NODES, FABRIC.at_rates(intra=1.0, inter=0.6)
    )
    probe = CollectiveProbe(
        collective=CollectiveOperation.ALL_REDUCE, group=TWO_NODES, samples=((1 << 28, seconds),)
    )

    assert find_slow_link(probe, FABRIC) is None


def test_only_links_between_gpus_are_judged_each_once() -> None:
    gpu, cpu = make_gpu(), make_cpu()
    size, lost_s = 1 << 27, 10.0  # 13 MB/s
    times = (CollectiveTimes(collective=Probed.ALL_REDUCE, message_bytes=size, times_s=(lost_s, lost_s)),)
    links = LinkProbe(backend="nccl", rank_count=2, node_count=1, times=times)
    on_gpu, on_cpu = (make_measurement(make_config(one.name), links=links) for one in (gpu, cpu))
    none = make_measurement(make_config(gpu.name))
    (finding,) = slow_links([on_gpu, on_cpu, none, on_gpu], {gpu.name: gpu, cpu.name: cpu})
    assert "reached 0.0 of 16.0 GB/s expected of PCIe; peer access is not used" in finding.message
    assert slow_links([on_gpu], {}) == ()
