from dataclasses import replace

import pytest

from catalogs.gpus import load_gpus
from planner.errors import PlannerError
from planner.fleet import Fleet, fleet_of, limited
from tests.builders import GIB
from trials.devices import Node, Versions

GPUS = load_gpus()


def node(device_name: str, gib: float, gpu_count: int = 1, **changes: object) -> Node:
    facts: dict = {
        "node_id": f"{device_name}-{gpu_count}",
        "hostname": "box",
        "device_name": device_name,
        "device_memory_bytes": int(gib * GIB),
        "gpu_count": gpu_count,
        "cpu_count": 8,
        "accelerator_type": "A100",
        "is_mig": False,
        "versions": Versions(python="3.11.7", ray="2.60.0", torch="2.13.0"),
    }
    return Node(**{**facts, **changes})


def test_cards_that_ray_merges_are_told_apart() -> None:
    fleet = fleet_of(
        [node("NVIDIA A100-SXM4-40GB", 39.4), node("NVIDIA A100-SXM4-80GB", 79.3, 2)], GPUS, "x86_64"
    )
    assert [(one.gpu, one.worker_count_max) for one in fleet.groups] == [
        ("A100-SXM4-40GB", 1),
        ("A100-SXM4-80GB", 2),
    ]


def test_nodes_of_one_type_form_one_group() -> None:
    nodes = [node("NVIDIA L4", 22.5, 2, node_id="a"), node("NVIDIA L4", 22.5, 4, node_id="b")]
    (group,) = fleet_of(nodes, GPUS, "x86_64").groups
    assert group.worker_count_max == 6
    assert [group.node_count_for(count) for count in (1, 2, 4, 6, 8)] == [1, 1, 1, 0, 0]
    pair = replace(group, nodes=(nodes[0], replace(nodes[0], node_id="c")))
    assert [pair.node_count_for(count) for count in (1, 2, 3, 4)] == [1, 1, 0, 2]


def test_an_unknown_card_is_reported_by_its_name_and_left_out() -> None:
    fleet = fleet_of([node("NVIDIA L4", 22.5), node("NVIDIA Imaginary 9000", 64, 3)], GPUS, "x86_64")
    assert [one.gpu for one in fleet.groups] == ["L4-24GB"]
    assert "3 x NVIDIA Imaginary 9000 (64 GiB) is not in the catalog" in fleet.notes[0]


def test_a_mig_slice_is_not_taken_for_a_whole_card() -> None:
    with pytest.raises(PlannerError, match="MIG"):
        fleet_of([node("NVIDIA H100 80GB HBM3", 79.6, is_mig=True)], GPUS, "x86_64")


def test_without_gpus_the_largest_cpu_host_is_used() -> None:
    nodes = [node("Some CPU", 8, 0, cpu_count=2), node("Some CPU", 32, 0, cpu_count=16, node_id="big")]
    (group,) = fleet_of(nodes, GPUS, "x86_64").groups
    assert group.is_cpu
    assert [one.node_id for one in group.nodes] == ["big"]
    assert group.gpu == "CPU-X86-64"


def test_a_cluster_without_anything_is_an_error() -> None:
    with pytest.raises(PlannerError, match="ray status"):
        fleet_of([], GPUS, "x86_64")


def shares(fleet: Fleet) -> dict[str, list[tuple[str, int]]]:
    return {group.gpu: [(one.node_id, one.gpu_count) for one in group.nodes] for group in fleet.groups}


A100, L4 = "NVIDIA A100-SXM4-80GB", "NVIDIA L4"


def test_a_limited_number_of_gpus_is_taken_where_they_are_free() -> None:
    fleet = fleet_of([node(L4, 22.5, 4, node_id=name) for name in "abc"], GPUS, "x86_64")
    found = limited(fleet, 6, {"a": 1, "b": 4, "c": 2})
    assert shares(found) == {"L4-24GB": [("b", 4), ("c", 2)]}
    assert found.groups[0].worker_count_max == 6
    assert found.notes == ("of 12 x L4-24GB, 6 may be used (--gpu-count 6)",)


def test_a_limited_number_of_gpus_is_dealt_to_the_types_that_are_wanted() -> None:
    fleet = fleet_of([node(A100, 79.3, 8), node(L4, 22.5, 2)], GPUS, "x86_64")
    assert shares(limited(fleet, 5, {})) == {
        "A100-SXM4-80GB": [(f"{A100}-8", 3)],
        "L4-24GB": [(f"{L4}-2", 2)],
    }
    assert list(shares(limited(fleet, 1, {}))) == ["A100-SXM4-80GB"]
    assert "of 2 x L4-24GB, none may be used (--gpu-count 1)" in limited(fleet, 1, {}).notes
    assert shares(limited(fleet, 5, {}, only={"A100-SXM4-80GB"})) == {"A100-SXM4-80GB": [(f"{A100}-8", 5)]}
    assert limited(fleet, 10, {}) is fleet


def test_cpu_machines_are_no_gpus() -> None:
    fleet = fleet_of([node("Some CPU", 8, 0, cpu_count=2)], GPUS, "x86_64")
    assert limited(fleet, 1, {}) is fleet
