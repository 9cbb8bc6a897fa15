"""Nodes as they answer: kinds of devices, slices, versions."""

from typing import Any

import pytest

from tests.builders import GIB
from trials.cluster.discovery import node_of
from trials.devices import Versions, version_problems
from trials.machine.identity import CardIdentity, Machine, cpu_name, host_memory_bytes, read_machine

VERSIONS = Versions(python="3.11.7", ray="2.60.0", torch="2.13.0+cu128")


def entry(**resources: float) -> dict[str, Any]:
    return {"NodeID": "a1", "NodeManagerHostname": "box", "Resources": {"CPU": 16.0, **resources}}


def machine(*cards: CardIdentity, why: str = "", versions: Versions = VERSIONS) -> Machine:
    return Machine(
        cards=cards, why_no_cards=why, cpu_name="EPYC", host_memory_bytes=64 * GIB, versions=versions
    )


def card(name: str = "NVIDIA A100-SXM4-80GB", gib: int = 80, *, is_mig: bool = False) -> CardIdentity:
    return CardIdentity(name=name, memory_bytes=gib * GIB, is_mig=is_mig)


def test_the_name_and_memory_are_the_drivers_not_rays():
    found = node_of(entry(GPU=2, **{"accelerator_type:A100": 1}), machine(card(), card()))
    assert (found.device_name, found.device_memory_bytes) == ("NVIDIA A100-SXM4-80GB", 80 * GIB)
    assert (found.gpu_count, found.accelerator_type, found.is_mig) == (2, "A100", False)


def test_a_node_without_gpus_is_its_cpu():
    found = node_of(entry(), machine(why="Driver Not Loaded"))
    assert (found.device_name, found.device_memory_bytes) == ("EPYC", 64 * GIB)
    assert (found.gpu_count, found.cpu_count, found.accelerator_type) == (0, 16, None)


def test_gpus_that_ray_may_not_use_do_not_count():
    assert node_of(entry(), machine(card())).gpu_count == 0


def test_gpus_that_nvml_does_not_know_match_no_catalog_name():
    found = node_of(entry(GPU=1), machine(why="NVML Shared Library Not Found"))
    assert found.device_name == "GPU of unknown name (NVML Shared Library Not Found)"


def test_two_kinds_in_one_node_match_no_catalog_name():
    found = node_of(entry(GPU=2), machine(card(), card("NVIDIA L4", 24)))
    assert found.device_name == "NVIDIA A100-SXM4-80GB + NVIDIA L4"
    assert found.device_memory_bytes == 24 * GIB


def test_a_slice_is_no_whole_card():
    assert node_of(entry(GPU=1), machine(card(is_mig=True))).is_mig


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, False),
        ({"python": "3.11.2"}, False),
        ({"torch": "2.13.0+cpu"}, False),
        ({"python": "3.12.7"}, True),
        ({"ray": "2.59.0"}, True),
        ({"torch": "2.12.1"}, True),
        ({"torch": None}, True),
    ],
)
def test_versions_that_matter(change, differs):
    facts = {"python": "3.11.7", "ray": "2.60.0", "torch": "2.13.0+cu128", **change}
    nodes = [node_of(entry(), machine()), node_of(entry(), machine(versions=Versions(**facts)))]
    assert (version_problems(nodes) is not None) is differs


def test_the_table_names_every_node():
    other = Versions(python="3.11.7", ray="2.59.0", torch=None)
    nodes = [node_of(entry(), machine()), node_of(entry(), machine(versions=other))]
    assert version_problems(nodes) == (
        "node  python  ray     torch\n"
        "box   3.11.7  2.60.0  2.13.0+cu128\n"
        "box   3.11.7  2.59.0  missing"
    )  # fmt: skip


def test_this_machine_answers():
    found = read_machine()
    assert found.cpu_name == cpu_name() != ""
    assert found.host_memory_bytes == host_memory_bytes() > GIB
    assert found.versions.torch is not None
    assert bool(found.cards) is (found.why_no_cards == "")
