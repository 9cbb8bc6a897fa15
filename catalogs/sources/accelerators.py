"""Foreign accelerator names to the catalog's: by name alone where it means one chip, else by cloud.

Foreign catalogs merge what the catalog keeps apart: "A100-80GB" is an SXM4 module on AWS and a PCIe card
on Azure's NC series, "H100" an SXM5 module on AWS, a PCIe card on RunPod and an NVL on Azure's NC series.
The latter stand in the provider's row of providers.csv. Where the instance type does not settle it either,
the answer is None and the row is named.
"""

from __future__ import annotations

import re

from catalogs.providers import load_providers, provider_name

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


def catalog_name(
    provider: str, accelerator: str, instance_type: str, memory_gb: float | None = None
) -> str | None:
    """The catalog name of what ``provider`` calls ``accelerator`` in ``instance_type``, or None.

    ``memory_gb`` of one accelerator, where a catalog states it apart from the name, only chooses between
    variants of a name; the figure itself is never used.
    """
    name = _normalized(accelerator)
    for prefix in ("NVIDIA", "GEFORCE", "TESLA"):
        name = name.removeprefix(prefix)
    if memory_gb is not None and (name, round(memory_gb)) in _VARIANTS:
        name = f"{name}{round(memory_gb)}GB"
    if name in _BY_NAME:
        return _BY_NAME[name]
    known = load_providers().get(provider_name(provider))
    for meant in known.accelerators if known else ():
        if _normalized(meant.name) == name and re.match(meant.instance_pattern, instance_type, re.IGNORECASE):
            return meant.gpu
    return None


def _normalized(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "", name.upper())


#: Names that mean several memories, and the memory that is not meant where none is stated.
_VARIANTS = {("A100", 80), ("V100", 32), ("RTX3080", 10), ("RTX3080", 12)}
