"""What SkyPilot, dstack and Kubernetes call a provider, an instance and an accelerator.

The catalog's names mean exactly one chip; theirs do not: SkyPilot's "H100" is an SXM5 module on AWS, a PCIe
card on RunPod, an NVL on Azure's NC series. So its names stand in the provider's row of providers.csv. What
is not named there has no file, and the reason is said.

Sources beside those of providers.csv: gpuhunt 0.1.34, KNOWN_NVIDIA_GPUS, which dstack 0.22.5 reads; NVIDIA's
GPU feature discovery for the node label.
"""

from __future__ import annotations

import re

from catalogs.gpus import Gpu
from catalogs.offers import Offer
from catalogs.providers import InstanceNames, RegionNames, load_providers

#: Catalog name -> gpuhunt's name and memory in GB. Form factors are not told apart there.
_DSTACK = {
    "P100-PCIE-16GB": ("P100", 16),
    "P100-SXM2-16GB": ("P100", 16),
    "V100-SXM2-16GB": ("V100", 16),
    "V100-PCIE-16GB": ("V100", 16),
    "V100-SXM2-32GB": ("V100", 32),
    "V100-PCIE-32GB": ("V100", 32),
    "T4-16GB": ("T4", 16),
    "QUADRO-RTX-6000-24GB": ("RTX6000", 24),
    "RTX-2080-TI-11GB": ("RTX2080Ti", 11),
    "A10-24GB": ("A10", 24),
    "A10G-24GB": ("A10G", 24),
    "A16-16GB": ("A16", 16),
    "A40-48GB": ("A40", 48),
    "A100-SXM4-40GB": ("A100", 40),
    "A100-PCIE-40GB": ("A100", 40),
    "A100-SXM4-80GB": ("A100", 80),
    "A100-PCIE-80GB": ("A100", 80),
    "RTX-A4000-16GB": ("A4000", 16),
    "RTX-A5000-24GB": ("A5000", 24),
    "RTX-A6000-48GB": ("A6000", 48),
    "RTX-3060-12GB": ("RTX3060", 12),
    "RTX-3080-10GB": ("RTX3080", 10),
    "RTX-3090-24GB": ("RTX3090", 24),
    "RTX-4080-16GB": ("RTX4080", 16),
    "RTX-4090-24GB": ("RTX4090", 24),
    "RTX-5080-16GB": ("RTX5080", 16),
    "RTX-5090-32GB": ("RTX5090", 32),
    "RTX-4000-ADA-20GB": ("RTX4000Ada", 20),
    "RTX-6000-ADA-48GB": ("RTX6000Ada", 48),
    "RTX-PRO-6000-SERVER-96GB": ("RTXPRO6000", 96),
    "RTX-PRO-6000-WORKSTATION-96GB": ("RTXPRO6000", 96),
    "L4-24GB": ("L4", 24),
    "L40-48GB": ("L40", 48),
    "L40S-48GB": ("L40S", 48),
    "H100-SXM5-80GB": ("H100", 80),
    "H100-PCIE-80GB": ("H100", 80),
    "H100-NVL-94GB": ("H100NVL", 94),
    "H200-SXM-141GB": ("H200", 141),
    "H200-NVL-141GB": ("H200NVL", 141),
    "GH200-96GB": ("GH200", 96),
    "B200-SXM-180GB": ("B200", 180),
    "B300-SXM-288GB": ("B300", 270),
    "GB200-186GB": ("GB200", 186),
}

_JOB_NAME_MAX = 41  # dstack's limit; Kubernetes' is 63, less what KubeRay adds


def skypilot_cloud(provider: str) -> str | None:
    """SkyPilot's cloud, in ``infra``; None where it has none."""
    known = load_providers().get(provider)
    return known.skypilot_cloud if known else None


def dstack_backend(provider: str) -> str | None:
    """dstack's backend; None where it has none. An own machine is in an SSH fleet."""
    known = load_providers().get(provider)
    return known.dstack_backend if known else None


def skypilot_accelerator(gpu: str, provider: str) -> str | None:
    """SkyPilot's name of a catalog GPU on a provider's instances; None where it has none."""
    known = load_providers().get(provider)
    if known is None or known.skypilot_cloud is None:
        return None
    return next((meant.name for meant in known.accelerators if meant.gpu == gpu), None)


def dstack_accelerator(gpu: str) -> tuple[str, int] | None:
    """gpuhunt's name and memory (GB) of a catalog GPU; None where it has none."""
    return _DSTACK.get(gpu)


def skypilot_instance(offer: Offer) -> str | None:
    """The instance type as SkyPilot knows it; None where accelerators and count must do."""
    known = load_providers().get(offer.provider)
    if known is None or known.instance_types is None:
        return None
    if known.instance_types is InstanceNames.HOST:
        return offer.instance_type.partition("+")[0]  # n1-standard-4+t4x1: the host; the GPU is named apart
    return offer.instance_type


def dstack_instance(offer: Offer) -> str | None:
    """The instance type as gpuhunt knows it; None where resources must do."""
    if "$" in offer.instance_type:  # SkyPilot's way to write a flexible shape
        return None
    known = load_providers().get(offer.provider)
    if known is not None and known.instance_types is InstanceNames.SPACED:
        return offer.instance_type.replace("_", " ", 1)  # "gpu-h100-sxm 1gpu-16vcpu-200gb"
    return skypilot_instance(offer)


def dstack_region(offer: Offer) -> str | None:
    """The region as dstack names it; None for any, or where its names are others."""
    known = load_providers().get(offer.provider)
    if offer.region == "any" or (known is not None and known.dstack_regions is RegionNames.OWN):
        return None
    return offer.region


def node_labels(offer: Offer, gpu: Gpu, *, is_cpu: bool) -> dict[str, str]:
    """Labels of an offer's instances as Kubernetes nodes: by the cloud, else by GPU feature discovery."""
    known = load_providers().get(offer.provider)
    if known is not None and known.kubernetes_instance_label and "$" not in offer.instance_type:
        return {known.kubernetes_instance_label: offer.instance_type}
    if is_cpu or not gpu.device_names:
        return {}
    return {"nvidia.com/gpu.product": gpu.device_names[0].replace(" ", "-")}


def job_name(study: str, rank: int) -> str:
    """A name that all of them take: lower-case letters, digits and dashes, a letter first."""
    end = f"-plan-{rank}"
    name = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"run-{name}".strip("-")
    return name[: _JOB_NAME_MAX - len(end)].rstrip("-") + end
