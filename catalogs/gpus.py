"""Accelerators and their figures: what a chip can do, by a name that means exactly one chip.

A catalog name carries family, form factor and memory (``A100-SXM4-80GB``), because providers, Ray and
the NVIDIA driver each merge some of them. Matching what a driver reports is exact or None: an unknown
card is never taken for a known one.

Conventions of gpus.csv:

* FLOP/s are dense peaks of the unit that PyTorch uses: fp32 on the CUDA cores (TF32 off), tf32, bf16 and
  fp16 on the tensor cores with fp32 accumulation, which is what PyTorch asks cuBLAS and cuDNN for. GeForce
  cards run that at half their fp16-accumulate rate. Where a data sheet prints only the figure "with
  sparsity", half of it. bf16 is empty before Ampere (PyTorch emulates it there, slower than fp32), tf32
  too; fp16 is empty for P4 and P40, whose fp16 units run at 1/64 of the fp32 rate. P100's fp16 is that of
  its CUDA cores.
* ``memory_gib`` is what CUDA offers a process on an idle card with ECC as the clouds set it
  (``torch.cuda.get_device_properties().total_memory``), the lowest of what recent drivers report, not the
  name's decimal or binary gigabytes: an 80 GB card has 79.1 GiB, a 24 GB A10G 22.0 GiB.
* ``nvlink_gb_per_s`` and ``pcie_gb_per_s`` are one direction, per GPU, decimal. ``link`` is what peers in
  one instance use as a rule: PCIe cards that take an NVLink bridge say pcie, since clouds seldom fit one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

from catalogs.errors import CatalogError
from catalogs.rows import CsvRow, read_rows

GIB = 1024**3
MIB = 1024**2

#: NVML counts what the driver reserves and CUDA does not (up to 4% on 16 GB cards); ECC takes 6% more.
#: Cards that share a driver name differ by a fifth or more (RTX 3080 of 10 and 12 GB).
MEMORY_TOLERANCE_FRACTION = 0.08

MANDATORY = (
    "name",
    "kind",
    "architecture",
    "memory_gib",
    "bandwidth_gb_per_s",
    "fp32_tflop_per_s",
    "link",
    "source",
)
COLUMNS = (
    *MANDATORY,
    *("device_names", "compute_capability", "tf32_tflop_per_s", "bf16_tflop_per_s", "fp16_tflop_per_s"),
    *("sm_count", "l2_cache_mib", "nvlink_gb_per_s", "pcie_gb_per_s", "power_w"),
)


class DeviceKind(StrEnum):
    """Whether an accelerator or the host's own cores run the model."""

    GPU = "gpu"
    CPU = "cpu"


class Link(StrEnum):
    """How the GPUs of one instance reach each other."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One row of gpus.csv.

    FLOP/s are dense peak figures (never the sparse ones) of the unit PyTorch would use for the precision;
    None where the chip has no such unit. For ``kind == CPU`` every figure is per vCPU (one hardware
    thread) and ``memory_bytes`` and ``bandwidth_bytes_per_s`` too, since an instance's share is what is
    rented.
    """

    name: str
    kind: DeviceKind
    device_names: tuple[str, ...]  # what CUDA or NVML says, exactly
    architecture: str  # "Ampere"
    compute_capability: float | None  # 8.0
    memory_bytes: int  # what CUDA offers a process on an idle card
    bandwidth_bytes_per_s: float
    fp32_flop_per_s: float
    tf32_flop_per_s: float | None
    bf16_flop_per_s: float | None
    fp16_flop_per_s: float | None
    sm_count: int | None
    l2_cache_bytes: int | None
    link: Link  # the link that this form factor has; an offer may override it
    link_bytes_per_s: float | None  # one direction, per GPU, to its peers in the instance
    power_w: float | None
    source: str  # where the figures stand
    nvlink_bytes_per_s: float | None = None  # one direction, per GPU; with the bridge where it needs one
    pcie_bytes_per_s: float | None = None  # one direction, per GPU

    def __hash__(self) -> int:
        return hash(self.name)  # unique in a catalog; hashing every figure is what a report would wait for

    def bytes_per_s_over(self, link: Link) -> float | None:
        """One direction, per GPU, over ``link``, which an offer may set; None if unknown."""
        if link is Link.NVLINK:
            return self.nvlink_bytes_per_s
        return self.pcie_bytes_per_s if link is Link.PCIE else None


def load_gpus() -> dict[str, Gpu]:
    """The shipped table by catalog name, in its order."""
    text = resources.files("catalogs").joinpath("gpus.csv").read_text(encoding="utf-8")
    return parse_gpus(text.splitlines(), "gpus.csv")


def parse_gpus(lines: Iterable[str], file: str) -> dict[str, Gpu]:
    """Accelerators by name from a CSV with the columns of gpus.csv; raises CatalogError."""
    gpus: dict[str, Gpu] = {}
    for row in read_rows(lines, file, MANDATORY, COLUMNS):
        gpu = _gpu(row)
        if gpu.name in gpus:
            raise row.fail("name", "unique: an earlier row has it")
        gpus[gpu.name] = gpu
    return gpus


def match_device(device_name: str, memory_bytes: int, gpus: Mapping[str, Gpu]) -> Gpu | None:
    """The accelerator that a driver calls ``device_name``, or None if the table does not know it.

    The name must be exactly one of the row's. ``memory_bytes`` (NVML's or CUDA's total) only tells apart
    rows that share a driver name; if it fits none of them, or several, the answer is None. A MIG slice is
    never taken for the card it is cut from.
    """
    if " MIG " in f"{device_name} ":
        return None
    named = [gpu for gpu in gpus.values() if device_name in gpu.device_names]
    if len(named) > 1:
        named = [gpu for gpu in named if _is_near(memory_bytes, gpu.memory_bytes)]
    return named[0] if len(named) == 1 else None


def find_gpu(text: str, gpus: Mapping[str, Gpu]) -> Gpu:
    """The accelerator that a person means by ``text``, in any case, with spaces or dashes.

    A catalog name or a driver's name, or as many parts of a catalog name as mean one row ("L4", "rtx 4090").
    Raises CatalogError listing the candidates where several rows fit ("H100"), or the closest names.
    """
    fitting = _fitting(text, gpus)
    if len(fitting) > 1:
        raise _ambiguous(text, fitting)
    return fitting[0]


def find_family(text: str, gpus: Mapping[str, Gpu]) -> tuple[Gpu, ...]:
    """The accelerators whose names begin with ``text``: "H100" is all its form factors and memories.

    A full name is that row alone, and so is what `find_gpu` takes for one. Raises CatalogError for what
    several chips merely contain ("RTX 6000" is a Quadro, an Ada and a Blackwell card), or for no name at all.
    """
    fitting, wanted = _fitting(text, gpus), _parts(text)
    if len(fitting) > 1 and any(_parts(gpu.name)[: len(wanted)] != wanted for gpu in fitting):
        raise _ambiguous(text, fitting)
    return tuple(fitting)


def _fitting(text: str, gpus: Mapping[str, Gpu]) -> list[Gpu]:
    """The rows that ``text`` can mean, at least one; raises CatalogError with the closest names for none."""
    if text in gpus:
        return [gpus[text]]
    wanted = _parts(text)
    by_name = {_parts(gpu.name): gpu for gpu in gpus.values()}
    if wanted in by_name:
        return [by_name[wanted]]
    fitting = [gpu for parts, gpu in by_name.items() if wanted and _is_within(wanted, parts)]
    fitting = fitting or [gpu for gpu in gpus.values() if wanted in map(_parts, gpu.device_names)]
    if not fitting:
        close = difflib.get_close_matches("-".join(wanted).upper(), gpus, n=4, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else "`planner catalog --gpus` lists the names"
        raise CatalogError(f"GPU {text!r} is not in the catalog; {hint}")
    return fitting


def _ambiguous(text: str, fitting: Iterable[Gpu]) -> CatalogError:
    names = ", ".join(sorted(gpu.name for gpu in fitting))
    return CatalogError(f"GPU {text!r} can mean {names}; write one of these names in full")


def cpu_class(machine: str, gpus: Mapping[str, Gpu]) -> Gpu:
    """The CPU row for what ``platform.machine()`` says; raises CatalogError for other architectures."""
    names = {"x86_64": "CPU-X86-64", "amd64": "CPU-X86-64", "aarch64": "CPU-ARM64", "arm64": "CPU-ARM64"}
    name = names.get(machine.lower())
    if name is None or name not in gpus:
        raise CatalogError(
            f"CPU architecture {machine!r} has no class in the catalog; known are {', '.join(names)}"
        )
    return gpus[name]


def _gpu(row: CsvRow) -> Gpu:
    link = row.choice("link", Link)
    nvlink, pcie = row.scaled("nvlink_gb_per_s", 1e9), row.scaled("pcie_gb_per_s", 1e9)
    l2_cache = row.scaled("l2_cache_mib", MIB)
    return Gpu(
        name=row.text("name"),
        kind=row.choice("kind", DeviceKind),
        device_names=tuple(filter(None, (row.optional_text("device_names") or "").split(";"))),
        architecture=row.text("architecture"),
        compute_capability=row.optional_number("compute_capability"),
        memory_bytes=int(row.number("memory_gib") * GIB),
        bandwidth_bytes_per_s=row.number("bandwidth_gb_per_s") * 1e9,
        fp32_flop_per_s=row.number("fp32_tflop_per_s") * 1e12,
        tf32_flop_per_s=row.scaled("tf32_tflop_per_s", 1e12),
        bf16_flop_per_s=row.scaled("bf16_tflop_per_s", 1e12),
        fp16_flop_per_s=row.scaled("fp16_tflop_per_s", 1e12),
        sm_count=row.optional_count("sm_count"),
        l2_cache_bytes=None if l2_cache is None else int(l2_cache),
        link=link,
        link_bytes_per_s={Link.NVLINK: nvlink, Link.PCIE: pcie, Link.NONE: None}[link],
        power_w=row.optional_number("power_w"),
        source=row.text("source"),
        nvlink_bytes_per_s=nvlink,
        pcie_bytes_per_s=pcie,
    )


def _parts(text: str) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[-_\s]+", text.upper())))


def _is_within(some: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether ``some`` are among ``parts``, in their order."""
    rest = iter(parts)
    return all(part in rest for part in some)


def _is_near(reported_bytes: int, known_bytes: int) -> bool:
    return abs(reported_bytes - known_bytes) <= MEMORY_TOLERANCE_FRACTION * known_bytes
