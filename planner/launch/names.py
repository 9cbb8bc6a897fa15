"""What SkyPilot, dstack and Kubernetes call a provider, an instance and an accelerator.

The catalog's names mean exactly one chip; theirs do not: SkyPilot's "H100" is an SXM5 module on AWS, a PCIe
card on RunPod, an NVL on Azure's NC series. So each of its names stands beside the providers where it means
this chip. What is not in a table has no file, and the reason is said.

Sources: SkyPilot's hosted catalog, schema v8, common/accelerators.csv and the providers' vms.csv (September
2026), and skypilot 0.14.1, catalog/data_fetchers; gpuhunt 0.1.34, KNOWN_NVIDIA_GPUS and providers/, which
dstack 0.22.5 reads; NVIDIA's GPU feature discovery for the node label.
"""

from __future__ import annotations

import re

from catalogs.gpus import Gpu
from catalogs.offers import Offer

OWN = "own"  # the provider of a price that the user gave

#: Our provider -> SkyPilot's cloud, in `infra`.
SKYPILOT_CLOUDS = {
    name: name
    for name in ("aws", "azure", "gcp", "lambda", "nebius", "oci", "paperspace", "runpod", "vast", "verda")
}

#: Our provider -> dstack's backend. An own machine is in an SSH fleet.
DSTACK_BACKENDS = {
    **{
        name: name
        for name in ("aws", "azure", "crusoe", "cudo", "gcp", "jarvislabs", "lambda", "nebius", "oci")
    },
    "runpod": "runpod",
    "vast": "vastai",
    "verda": "verda",
    "vultr": "vultr",
    OWN: "remote",
}

#: (catalog name, SkyPilot's name, the clouds where the one means the other)
_SKYPILOT = (
    ("P4-8GB", "P4", "gcp"),
    ("P100-PCIE-16GB", "P100", "gcp oci"),
    ("V100-SXM2-16GB", "V100", "aws gcp lambda oci verda"),
    ("V100-PCIE-16GB", "V100", "azure"),
    ("V100-SXM2-32GB", "V100-32GB", "aws azure"),
    ("V100-PCIE-32GB", "V100-32GB", "paperspace"),
    ("T4-16GB", "T4", "aws azure gcp"),
    ("A10-24GB", "A10", "azure lambda oci"),
    ("A10G-24GB", "A10G", "aws"),
    ("A40-48GB", "A40", "runpod vast"),
    ("A100-SXM4-40GB", "A100", "aws azure gcp lambda oci"),
    ("A100-PCIE-40GB", "A100", "lambda"),
    ("A100-SXM4-80GB", "A100-80GB", "aws azure gcp lambda oci paperspace verda"),
    ("A100-SXM4-80GB", "A100-80GB-SXM", "runpod"),
    ("A100-PCIE-80GB", "A100-80GB", "azure runpod"),
    ("RTX-A4000-16GB", "RTXA4000", "runpod"),
    ("RTX-A5000-24GB", "RTXA5000", "runpod"),
    ("RTX-A6000-48GB", "RTXA6000", "runpod vast"),
    ("RTX-A6000-48GB", "A6000", "lambda"),
    ("RTX-3090-24GB", "RTX3090", "runpod vast"),
    ("RTX-4090-24GB", "RTX4090", "runpod vast"),
    ("RTX-5090-32GB", "RTX5090", "runpod vast"),
    ("RTX-6000-ADA-48GB", "RTX6000-Ada", "runpod vast"),
    ("RTX-6000-ADA-48GB", "RTX-6000-Ada", "verda"),
    ("RTX-PRO-6000-SERVER-96GB", "RTXPRO6000", "runpod"),
    ("RTX-PRO-6000-SERVER-96GB", "RTXPRO6000S", "vast"),
    ("RTX-PRO-6000-SERVER-96GB", "RTX-PRO-6000", "verda"),
    ("L4-24GB", "L4", "aws gcp runpod"),
    ("L40-48GB", "L40", "runpod"),
    ("L40S-48GB", "L40S", "aws nebius oci runpod vast"),
    ("H100-SXM5-80GB", "H100", "aws azure gcp lambda nebius oci verda"),
    ("H100-SXM5-80GB", "H100-SXM", "runpod"),
    ("H100-PCIE-80GB", "H100", "lambda runpod"),
    ("H100-NVL-94GB", "H100", "azure"),
    ("H100-NVL-94GB", "H100-NVL", "runpod"),
    ("H200-SXM-141GB", "H200", "aws gcp nebius oci verda"),
    ("H200-SXM-141GB", "H200-SXM", "runpod"),
    ("GH200-96GB", "GH200", "lambda"),
    ("B200-SXM-180GB", "B200", "aws lambda nebius oci runpod verda"),
    ("B300-SXM-288GB", "B300", "aws oci verda"),
    ("GB200-186GB", "GB200", "oci"),
)

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

_NAMED_ALIKE = frozenset(("aws", "azure", "lambda", "nebius", "oci", "verda"))  # their instance types, by all
_KUBERNETES_CLOUDS = frozenset(("aws", "azure", "oci"))  # whose nodes carry their instance type in full
_JOB_NAME_MAX = 41  # dstack's limit; Kubernetes' is 63, less what KubeRay adds


def skypilot_accelerator(gpu: str, provider: str) -> str | None:
    """SkyPilot's name of a catalog GPU on a provider's instances; None where it has none."""
    return next(
        (name for ours, name, clouds in _SKYPILOT if ours == gpu and provider in clouds.split()), None
    )


def dstack_accelerator(gpu: str) -> tuple[str, int] | None:
    """gpuhunt's name and memory (GB) of a catalog GPU; None where it has none."""
    return _DSTACK.get(gpu)


def skypilot_instance(offer: Offer) -> str | None:
    """The instance type as SkyPilot knows it; None where accelerators and count must do."""
    if offer.provider == "gcp":
        return offer.instance_type.partition("+")[0]  # n1-standard-4+t4x1: the host; the GPU is named apart
    return offer.instance_type if offer.provider in _NAMED_ALIKE else None


def dstack_instance(offer: Offer) -> str | None:
    """The instance type as gpuhunt knows it; None where resources must do."""
    if offer.provider == "oci" and "$" in offer.instance_type:  # SkyPilot's way to write a flexible shape
        return None
    if offer.provider == "nebius":
        return offer.instance_type.replace("_", " ", 1)  # "gpu-h100-sxm 1gpu-16vcpu-200gb"
    return skypilot_instance(offer)


def node_labels(offer: Offer, gpu: Gpu, *, is_cpu: bool) -> dict[str, str]:
    """Labels of an offer's instances as Kubernetes nodes: by the cloud, else by GPU feature discovery."""
    if offer.provider in _KUBERNETES_CLOUDS and "$" not in offer.instance_type:
        return {"node.kubernetes.io/instance-type": offer.instance_type}
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
