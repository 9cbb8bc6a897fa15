import re

import pytest

from catalogs.gpus import DeviceKind, load_gpus
from catalogs.offers import Offer, Pricing, load_offers
from catalogs.providers import load_providers
from catalogs.sources.accelerators import catalog_name
from planner.launch.names import (
    dstack_accelerator,
    dstack_backend,
    dstack_instance,
    job_name,
    node_labels,
    skypilot_accelerator,
    skypilot_cloud,
    skypilot_instance,
)
from tests.builders import make_gpu, make_offer

GPUS = load_gpus()
GPU_OFFERS = [one for one in load_offers() if GPUS[one.gpu].kind is DeviceKind.GPU]

NOT_IN_SKYPILOT = {
    ("azure", "H200-SXM-141GB"),
    ("paperspace", "RTX-A6000-48GB"),
}
NOT_IN_DSTACK = {"V100S-PCIE-32GB"}


def offer_of(instance_type: str) -> Offer:
    return next(one for one in load_offers() if one.instance_type == instance_type)


def test_every_shipped_gpu_offer_of_a_cloud_that_skypilot_has_is_named_or_known_not_to_be() -> None:
    unnamed = {
        (one.provider, one.gpu)
        for one in GPU_OFFERS
        if skypilot_cloud(one.provider) and skypilot_accelerator(one.gpu, one.provider) is None
    }
    assert unnamed == NOT_IN_SKYPILOT


def test_a_name_for_skypilot_means_the_same_chip_to_the_reader_of_its_catalog() -> None:
    """The reader of SkyPilot's catalog takes each name that is written back to the offer's own GPU."""
    read_back = {
        (one.provider, one.gpu, name, catalog_name(one.provider, name, one.instance_type))
        for one in GPU_OFFERS
        if one.provider != "paperspace"  # whose catalog nobody reads
        and (name := skypilot_accelerator(one.gpu, one.provider)) is not None
    }
    assert {(provider, gpu, name, gpu) for provider, gpu, name, _ in read_back} == read_back


def test_every_shipped_gpu_has_a_name_for_dstack_or_is_known_not_to() -> None:
    assert {one.gpu for one in GPU_OFFERS if dstack_accelerator(one.gpu) is None} == NOT_IN_DSTACK


def test_the_memory_in_a_name_for_dstack_is_the_cards() -> None:
    memories = {name: found[1] for name in GPUS if (found := dstack_accelerator(name)) is not None}
    assert memories.pop("B300-SXM-288GB") == 270  # what gpuhunt lists
    assert {name: f"{name.rsplit('-', 1)[0]}-{memory}GB" for name, memory in memories.items()} == {
        name: name for name in memories
    }


def test_every_name_is_of_a_gpu_in_the_catalog() -> None:
    for provider in load_providers():
        if skypilot_cloud(provider):
            assert any(skypilot_accelerator(gpu, provider) for gpu in GPUS), provider
    assert skypilot_accelerator("H100-SXM5-80GB", "runpod") == "H100-SXM"
    assert skypilot_accelerator("H100-PCIE-80GB", "runpod") == "H100"
    assert skypilot_accelerator("H100-PCIE-80GB", "aws") is None


@pytest.mark.parametrize(
    ("instance_type", "skypilot", "dstack"),
    [
        ("p5.48xlarge", "p5.48xlarge", "p5.48xlarge"),
        ("n1-standard-4+t4x1", "n1-standard-4", "n1-standard-4"),
        ("gpu-h100-sxm_8gpu-128vcpu-1600gb",) * 2 + ("gpu-h100-sxm 8gpu-128vcpu-1600gb",),
        ("VM.Standard.E5.Flex$_4_16", "VM.Standard.E5.Flex$_4_16", None),
        ("1x_L4-24GB", None, None),
    ],
)
def test_instance_types_as_each_tool_writes_them(
    instance_type: str, skypilot: str | None, dstack: str | None
) -> None:
    offer = offer_of(instance_type)
    assert (skypilot_instance(offer), dstack_instance(offer)) == (skypilot, dstack)


def test_an_own_machine_is_in_an_ssh_fleet_of_dstack_and_unknown_to_skypilot() -> None:
    assert dstack_backend("own") == "remote"
    assert skypilot_cloud("own") is None


def test_nodes_are_told_by_the_clouds_label_or_by_nvidias() -> None:
    gpu = make_gpu(device_names=("NVIDIA H100 80GB HBM3",))
    aws = make_offer(gpu.name, provider="aws", instance_type="p5.48xlarge", pricing=Pricing.SPOT)
    assert node_labels(aws, gpu, is_cpu=False) == {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    own = make_offer(gpu.name, provider="own")
    assert node_labels(own, gpu, is_cpu=False) == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert node_labels(make_offer("CPU-X86-64", provider="own"), gpu, is_cpu=True) == {}


@pytest.mark.parametrize(
    ("study", "name"),
    [
        ("gpt-01234567", "gpt-01234567-plan-1"),
        ("My Study (2)", "my-study-2-plan-1"),
        ("7b", "run-7b-plan-1"),
        ("Ünï", "n-plan-1"),
        ("", "run-plan-1"),
        ("x" * 80, "x" * 34 + "-plan-1"),
    ],
)
def test_a_job_name_is_one_that_every_tool_takes(study: str, name: str) -> None:
    assert job_name(study, 1) == name
    assert re.fullmatch(r"[a-z][a-z0-9-]{1,40}", name)
