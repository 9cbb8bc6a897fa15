"""Foreign accelerator names to the catalog's: by name alone where it means one chip, else by cloud.

Foreign catalogs merge what the catalog keeps apart: "A100-80GB" is an SXM4 module on AWS and a PCIe card
on Azure's NC series, "H100" an SXM5 module on AWS, a PCIe card on RunPod and an NVL on Azure's NC series.
Where the cloud's instance type does not settle it either, the answer is None and the row is named.
"""

from __future__ import annotations

import re

_PROVIDERS = {"lambdalabs": "lambda", "datacrunch": "verda", "vastai": "vast", "ovhcloud": "ovh"}

_BY_NAME = {
    **{name: f"{name}-24GB" for name in ("P40", "A10", "A10G", "A30", "L4")},
    **{name: f"{name}-16GB" for name in ("T4", "A2", "A16")},
    **{name: f"{name}-48GB" for name in ("A40", "L40", "L40S")},
    **{f"RTX{number}": f"RTX-{number}-24GB" for number in (3090, 4090)},
    **{
        f"{prefix}A{n}": f"RTX-A{n}-{gb}GB"
        for prefix in ("RTX", "")
        for n, gb in ((4000, 16), (5000, 24), (6000, 48))
    },
    **{f"RTX{n}ADA": f"RTX-{n}-ADA-{gb}GB" for n, gb in ((4000, 20), (5000, 32), (6000, 48))},
    **dict.fromkeys(("RTXPRO6000", "RTXPRO6000S", "RTXPRO6000SERVER"), "RTX-PRO-6000-SERVER-96GB"),
    **dict.fromkeys(("RTXPRO6000WS", "RTXPRO6000WK"), "RTX-PRO-6000-WORKSTATION-96GB"),
    **dict.fromkeys(("A10080GBSXM", "A10080GBSXM4", "A10080GSXM4"), "A100-SXM4-80GB"),
    **dict.fromkeys(("A10080GBPCIE", "A10080GPCIE", "A10080GPCIENVLINK"), "A100-PCIE-80GB"),
    **dict.fromkeys(("H100SXM", "H100SXM5", "H10080GSXM5", "H100MEGA"), "H100-SXM5-80GB"),
    **dict.fromkeys(("H100PCIE", "H10080GPCIE", "H10080GPCIENVLINK"), "H100-PCIE-80GB"),
    **dict.fromkeys(("H200", "H200SXM"), "H200-SXM-141GB"),
    "H100NVL": "H100-NVL-94GB",
    "H200NVL": "H200-NVL-141GB",
    "H20": "H20-96GB",
    "GH200": "GH200-96GB",
    "B200": "B200-SXM-180GB",
    "GB200": "GB200-186GB",
    "B300": "B300-SXM-288GB",
    "P4": "P4-8GB",
    "P100": "P100-PCIE-16GB",
    "RTX3060": "RTX-3060-12GB",
    "RTX308010GB": "RTX-3080-10GB",
    "RTX308012GB": "RTX-3080-12GB",
    "RTX4080": "RTX-4080-16GB",
    "RTX5080": "RTX-5080-16GB",
    "RTX5090": "RTX-5090-32GB",
    "RTX6000": "QUADRO-RTX-6000-24GB",
    "RTX8000": "QUADRO-RTX-8000-48GB",
    "TITANRTX": "TITAN-RTX-24GB",
}

#: (foreign name, provider, pattern of the instance type, catalog name); the first that fits holds.
_BY_CLOUD = (
    ("A100", "aws", r"p4d\.", "A100-SXM4-40GB"),
    ("A100", "gcp", r"a2-(high|mega)gpu", "A100-SXM4-40GB"),
    ("A100", "azure", r"Standard_ND96asr", "A100-SXM4-40GB"),
    ("A100", "lambda", r".*sxm4", "A100-SXM4-40GB"),
    ("A100", "lambda", r"gpu_\dx_a100$", "A100-PCIE-40GB"),
    ("A100", "oci", r"BM\.GPU4\.8", "A100-SXM4-40GB"),
    ("A100", "verda", r"\dA100\.40S", "A100-SXM4-40GB"),
    ("A10080GB", "aws", r"p4de\.", "A100-SXM4-80GB"),
    ("A10080GB", "gcp", r"a2-ultragpu", "A100-SXM4-80GB"),
    ("A10080GB", "azure", r"Standard_NC\d+ads_A100", "A100-PCIE-80GB"),
    ("A10080GB", "azure", r"Standard_ND96ams", "A100-SXM4-80GB"),
    ("A10080GB", "lambda", r".*sxm4", "A100-SXM4-80GB"),
    ("A10080GB", "oci", r"BM\.GPU\.A100-v2", "A100-SXM4-80GB"),
    ("A10080GB", "runpod", r"", "A100-PCIE-80GB"),  # its SXM modules are called A100-80GB-SXM
    ("A10080GB", "verda", r"", "A100-SXM4-80GB"),
    ("H100", "aws", r"p5\.", "H100-SXM5-80GB"),
    ("H100", "gcp", r"a3-", "H100-SXM5-80GB"),
    ("H100", "azure", r"Standard_NC\d+ad.*_H100", "H100-NVL-94GB"),
    ("H100", "azure", r"Standard_ND\d+isr?.*_H100", "H100-SXM5-80GB"),
    ("H100", "lambda", r".*sxm5", "H100-SXM5-80GB"),
    ("H100", "lambda", r".*pcie", "H100-PCIE-80GB"),
    ("H100", "nebius", r".*-sxm", "H100-SXM5-80GB"),
    ("H100", "oci", r"BM\.GPU\.H100", "H100-SXM5-80GB"),
    ("H100", "runpod", r"", "H100-PCIE-80GB"),  # its SXM modules are called H100-SXM
    ("H100", "verda", r"\dH100\.80S", "H100-SXM5-80GB"),
    ("H100", "jarvislabs", r"", "H100-SXM5-80GB"),
    ("V100", "aws", r"p3\.", "V100-SXM2-16GB"),
    ("V100", "gcp", r"", "V100-SXM2-16GB"),
    ("V100", "azure", r"Standard_NC\d+r?s_v3", "V100-PCIE-16GB"),
    ("V100", "lambda", r"", "V100-SXM2-16GB"),
    ("V100", "oci", r".*\.GPU3\.", "V100-SXM2-16GB"),
    ("V100", "verda", r"", "V100-SXM2-16GB"),
    ("V10032GB", "aws", r"p3dn\.", "V100-SXM2-32GB"),
    ("V10032GB", "azure", r"Standard_ND40rs_v2", "V100-SXM2-32GB"),
)


def provider_name(foreign: str) -> str:
    """The catalog's name of a provider."""
    name = foreign.lower()
    return _PROVIDERS.get(name, name)


def catalog_name(
    provider: str, accelerator: str, instance_type: str, memory_gb: float | None = None
) -> str | None:
    """The catalog name of what ``provider`` calls ``accelerator`` in ``instance_type``, or None.

    ``memory_gb`` of one accelerator, where a catalog states it apart from the name, only chooses between
    variants of a name; the figure itself is never used.
    """
    name = re.sub(r"[^A-Z0-9]", "", accelerator.upper())
    for prefix in ("NVIDIA", "GEFORCE", "TESLA"):
        name = name.removeprefix(prefix)
    if memory_gb is not None and (name, round(memory_gb)) in _VARIANTS:
        name = f"{name}{round(memory_gb)}GB"
    if name in _BY_NAME:
        return _BY_NAME[name]
    for foreign, cloud, pattern, ours in _BY_CLOUD:
        if (foreign, cloud) == (name, provider_name(provider)) and re.match(
            pattern, instance_type, re.IGNORECASE
        ):
            return ours
    return None


#: Names that mean several memories, and the memory that is not meant where none is stated.
_VARIANTS = {("A100", 80), ("V100", 32), ("RTX3080", 10), ("RTX3080", 12)}
