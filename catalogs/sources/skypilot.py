"""SkyPilot's hosted catalog (schema v5 to v9): one vms.csv per cloud.

What the format does not say of itself, each the subject of a test:

* The columns' order and number differ from cloud to cloud; they are read by name.
* One row per zone: an offer is the region's, on demand at the lowest of its prices, spot at its cheapest
  zone's. A SpotPrice equal to the Price is no spot market (RunPod).
* GCP prices the host and its accelerators in separate rows, joined by zone; the host row of a GPU machine
  alone is not an offer.
* GpuInfo is a Python literal or JSON, in MiB or GB, per GPU or in all, right or wrong: it is not read. GPU
  memory is gpus.csv's.
* An accelerator count below one is a share of a GPU, which is not offered.
* Accelerators are named loosely (see catalogs.sources.accelerators), and TPUs and CPUs are mixed in.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial

from catalogs.errors import CatalogError
from catalogs.gpus import GIB, Gpu, Link
from catalogs.offers import Offer, Pricing
from catalogs.providers import billing_increment_s, load_providers, provider_name
from catalogs.sources.accelerators import catalog_name
from catalogs.sources.fetch import fetch, join
from catalogs.sources.price_source import Imported, PriceSource, Source, count_skipped, providers_in

#: Where SkyPilot itself looks (sky/catalog/constants.py).
ADDRESS = "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8"
_COLUMNS = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "Price",
    "SpotPrice",
    "Region",
)

#: GCP: the machine type that carries so many of an accelerator (compute engine documentation, GPU machine
#: types). The older cards are attached to any N1 machine; these have the vCPUs that every count admits.
_GCP_HOSTS = {
    **{("A100", n): f"a2-highgpu-{n}g" for n in (1, 2, 4, 8)},
    **{("A100-80GB", n): f"a2-ultragpu-{n}g" for n in (1, 2, 4, 8)},
    **{("H100", n): f"a3-highgpu-{n}g" for n in (1, 2, 4, 8)},
    **{("L4", n): host for n, host in ((1, "g2-standard-4"), (2, "g2-standard-24"), (4, "g2-standard-48"))},
    **{("RTXPRO6000", n): f"g4-standard-{48 * n}" for n in (1, 2, 4, 8)},
    **{(name, n): f"n1-standard-{8 * n}" for name in ("T4", "P4", "P100") for n in (1, 2, 4)},
    **{("V100", n): f"n1-standard-{8 * n}" for n in (1, 2, 4, 8)},
    ("A100", 16): "a2-megagpu-16g",
    ("L4", 8): "g2-standard-96",
    ("H100-MEGA", 8): "a3-megagpu-8g",
    ("H200", 8): "a3-ultragpu-8g",
    ("B200", 8): "a4-highgpu-8g",
    ("GB200", 4): "a4x-highgpu-4g",
}
_GCP_GPU_MACHINE = re.compile(r"(a2|a3|a4|a4x|g2|g4|ct\w*)-")

_CPU_VCPUS_MAX = 64  # of a CPU instance that is worth a plan


def import_skypilot(root: str, cloud: str, gpus: Mapping[str, Gpu], as_of: date | None = None) -> Imported:
    """The offers of ``cloud`` from ``root``/``cloud``/vms.csv, ``root`` a folder or an http(s) address.

    ``as_of`` overrides the day that the file is from. Raises CatalogError if the file cannot be had or has
    not the published columns; rows that become no offer are named in the result.
    """
    fetched = fetch(join(root, cloud, "vms.csv"))
    source = f"SkyPilot catalog, {fetched.location}"
    return read_vms(fetched.text.splitlines(), cloud, gpus, source, as_of or fetched.as_of)


def read_vms(lines: Iterable[str], cloud: str, gpus: Mapping[str, Gpu], source: str, as_of: date) -> Imported:
    """The offers in the lines of one cloud's vms.csv; see ``import_skypilot``."""
    provider = provider_name(cloud)
    billing_increment_s(provider)  # without one none of its prices can be used: said once, not for each row
    skipped: list[tuple[str, str]] = []
    vms = list(_vms(lines, f"{cloud}/vms.csv", skipped))
    if provider == "gcp":
        vms = list(_with_hosts(vms, skipped))
    regions: dict[tuple[str, str], list[_Vm]] = defaultdict(list)
    for vm in vms:
        gpu = _gpu_name(provider, vm, skipped)
        if gpu is not None and gpu in gpus:
            regions[vm.instance_type, vm.region].append(vm)
    offers: list[Offer] = []
    for zones in regions.values():
        gpu = _gpu_name(provider, zones[0], [])
        offers += _offers(provider, gpus[str(gpu)], zones, source, as_of)
    return Imported(provider=provider, offers=tuple(offers), skipped=count_skipped(skipped))


def _sources(root: str, gpus: Mapping[str, Gpu], today: date) -> Iterator[Source]:  # noqa: ARG001 - its files are dated
    for cloud in providers_in(
        root, "*/vms.csv", (provider.skypilot_catalog for provider in load_providers().values())
    ):
        yield Source(provider=provider_name(cloud), read=partial(import_skypilot, root, cloud, gpus))


SOURCE = PriceSource(
    name="skypilot",
    title="SkyPilot's hosted catalog",
    help="A folder or http(s) address with <cloud>/vms.csv.",
    rank=0,  # its rows name regions, and spot prices of every zone
    default_root=lambda: ADDRESS,
    sources=_sources,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vm:
    """One row: an instance type in a zone; on GCP also a bare host, or accelerators without their host."""

    instance_type: str
    accelerator: str
    accelerator_count: float
    vcpus: float
    memory_gib: float
    price_usd_per_hour: float | None
    spot_usd_per_hour: float | None
    region: str
    zone: str
    arch: str


def _vms(lines: Iterable[str], file: str, skipped: list[tuple[str, str]]) -> Iterator[_Vm]:
    reader = csv.DictReader(lines)
    if missing := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
        raise CatalogError(f"{file}: not a SkyPilot catalog: column {', '.join(missing)} is missing")
    for row in reader:
        cells = {name: (row.get(name) or "").strip() for name in (*_COLUMNS, "AvailabilityZone", "Arch")}
        try:
            yield _vm(cells)
        except ValueError as error:
            skipped.append((f"line {reader.line_num}", str(error)))


def _vm(cells: Mapping[str, str]) -> _Vm:
    """Raises ValueError for a cell that is no number; an empty price is one nobody asks."""
    return _Vm(
        instance_type=cells["InstanceType"],
        accelerator=cells["AcceleratorName"],
        accelerator_count=float(cells["AcceleratorCount"] or 0),
        vcpus=float(cells["vCPUs"] or 0),
        memory_gib=float(cells["MemoryGiB"] or 0),
        price_usd_per_hour=float(cells["Price"]) if cells["Price"] else None,
        spot_usd_per_hour=float(cells["SpotPrice"]) if cells["SpotPrice"] else None,
        region=cells["Region"],
        zone=cells["AvailabilityZone"],
        arch=cells["Arch"],
    )


def _with_hosts(vms: Iterable[_Vm], skipped: list[tuple[str, str]]) -> Iterator[_Vm]:
    """GCP's rows with every accelerator row joined to its host's row of the same zone, prices summed."""
    all_vms = list(vms)
    hosts = {(vm.instance_type, vm.region, vm.zone): vm for vm in all_vms if vm.instance_type}
    for vm in all_vms:
        if vm.instance_type:
            if not vm.accelerator and not _GCP_GPU_MACHINE.match(vm.instance_type):
                yield vm
            continue
        name = _GCP_HOSTS.get((vm.accelerator, int(vm.accelerator_count)))
        host = hosts.get((name or "", vm.region, vm.zone))
        if host is None:
            reason = (
                "no machine type is known for it" if name is None else f"no price for its host {name} there"
            )
            skipped.append((f"{vm.accelerator} x {vm.accelerator_count:g}", reason))
            continue
        is_attached = host.instance_type.startswith("n1-")
        suffix = f"+{vm.accelerator.lower()}x{vm.accelerator_count:g}" if is_attached else ""
        yield _Vm(
            instance_type=host.instance_type + suffix,
            accelerator=vm.accelerator,
            accelerator_count=vm.accelerator_count,
            vcpus=host.vcpus,
            memory_gib=host.memory_gib,
            price_usd_per_hour=_sum(host.price_usd_per_hour, vm.price_usd_per_hour),
            spot_usd_per_hour=_sum(host.spot_usd_per_hour, vm.spot_usd_per_hour),
            region=vm.region,
            zone=vm.zone,
            arch=host.arch,
        )


def _sum(host: float | None, accelerators: float | None) -> float | None:
    return None if host is None or accelerators is None else host + accelerators


def _gpu_name(provider: str, vm: _Vm, skipped: list[tuple[str, str]]) -> str | None:
    """The catalog name of the row's accelerator or CPU class; None, with the reason, where there is none."""
    if not vm.accelerator:
        return _cpu_class(provider, vm)
    what = f"{vm.accelerator} ({vm.instance_type})"
    if vm.accelerator_count < 1 or vm.accelerator_count != int(vm.accelerator_count):
        skipped.append((what, f"{vm.accelerator_count:g} of a GPU: a share is not a whole card"))
        return None
    name = catalog_name(provider, vm.accelerator, vm.instance_type)
    if name is None:
        skipped.append((what, "no accelerator of gpus.csv, or its form factor is not said"))
    return name


def _cpu_class(provider: str, vm: _Vm) -> str | None:
    known = load_providers()[provider]
    if not 1 <= vm.vcpus <= _CPU_VCPUS_MAX or vm.arch == "i386":
        return None
    if known.cpu_instance_types and not re.match(known.cpu_instance_types, vm.instance_type):
        return None
    arm = known.arm_instance_types  # for the clouds whose rows have no Arch column
    is_arm = vm.arch == "arm64" or (not vm.arch and arm and re.match(arm, vm.instance_type))
    return "CPU-ARM64" if is_arm else "CPU-X86-64"


def _offers(provider: str, gpu: Gpu, zones: list[_Vm], source: str, as_of: date) -> Iterator[Offer]:
    """On demand and spot in one region, from the rows of its zones."""
    vm = zones[0]
    full = min((zone.price_usd_per_hour for zone in zones if zone.price_usd_per_hour), default=None)
    spot = min((zone.spot_usd_per_hour for zone in zones if zone.spot_usd_per_hour), default=None)
    for pricing, price in ((Pricing.ON_DEMAND, full), (Pricing.SPOT, None if spot == full else spot)):
        if price is not None:
            count = max(1, int(vm.accelerator_count))
            yield Offer(
                provider=provider,
                instance_type=vm.instance_type,
                region=vm.region or "any",
                pricing=pricing,
                gpu=gpu.name,
                gpu_count=count,
                vcpus=max(1, int(vm.vcpus)),
                memory_bytes=int(vm.memory_gib * GIB),
                gpu_link=gpu.link if count > 1 else Link.NONE,
                network_bytes_per_s=None,
                price_usd_per_hour=round(price, 6),
                billing_increment_s=billing_increment_s(provider),
                source=source,
                as_of=as_of,
            )
