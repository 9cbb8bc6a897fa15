"""What a worker's chip can do: its peak figures, and the rates that kernels reach on it.

Matrix products run at a share of the peak of the unit that the precision uses, and no faster than the card's
power allows: a 70 W card cannot pay for the FLOP/s on its data sheet. CPU rows of the catalog are per vCPU,
and the workers of a node share its vCPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from catalogs.gpus import DeviceKind, Gpu
from planner.estimate.scaling.collectives import Channel, fabric_of
from planner.estimate.time.reference import Reference, reference
from planner.estimate.values import Hardware
from planner.modes import PRECISIONS
from planner.modes.precision import REFERENCE
from trials.api import TrialConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """Rates of one worker's share of a device under one precision.

    ``*_peak_*`` bound every prediction from below; the others are what large kernels reach.
    """

    gpu: str  # catalog name
    precision: str
    is_half: bool  # whether activations take half of fp32's bytes
    capability: float | None  # compute capability
    is_cpu: bool
    is_on_units: bool  # the precision runs on matrix units, not on the fp32 lanes
    product_peak_flop_per_s: float  # of the unit that matrix products use
    lane_peak_flop_per_s: float  # fp32
    peak_bytes_per_s: float
    product_flop_per_s: float  # reached, were there no power limit
    lane_flop_per_s: float
    bytes_per_s: float
    product_power_flop_per_s: float  # reached at the power limit; product_flop_per_s where it does not bind
    lane_power_flop_per_s: float
    stream_power_fraction: float  # of the limit, drawn by memory-bound kernels
    sm_count: int | None
    l2_bytes: int
    link: Channel  # to the others of its node, as NCCL reaches them

    def __hash__(self) -> int:
        return hash((self.gpu, self.precision, self.peak_bytes_per_s))  # enough to tell chips apart

    @property
    def sustained_flop_per_s(self) -> float:
        """Of large matrix products for minutes on end."""
        return min(self.product_flop_per_s, self.product_power_flop_per_s)

    @property
    def is_power_limited(self) -> bool:
        """Whether the card's power, not its clock, sets the pace of matrix products."""
        return self.product_power_flop_per_s < self.product_flop_per_s

    @property
    def throttle(self) -> float:
        """How many times faster matrix products would run without the power limit."""
        return self.product_flop_per_s / self.sustained_flop_per_s


def peak_flop_per_s(gpu: Gpu, precision: str) -> float | None:
    """Dense peak of the unit PyTorch uses; None where the chip has none for the precision."""
    return PRECISIONS[precision].peak_flop_per_s(gpu)


def chip_of(config: TrialConfig, hardware: Hardware) -> Chip | None:
    """One worker's chip under ``config``; None without the unit, or the vCPU count of a CPU."""
    share = 1.0
    if hardware.gpu.kind is DeviceKind.CPU:
        if hardware.vcpus is None:
            return None
        share = hardware.vcpus / max(1, config.gpu_count // config.node_count)
    return chip(hardware.gpu, config.precision, share)


@lru_cache(maxsize=4096)
def chip(gpu: Gpu, precision: str, share: float = 1.0) -> Chip | None:
    """``share`` of a device under one precision; None where it has no unit for it."""
    mode = PRECISIONS[precision]
    peak = mode.peak_flop_per_s(gpu)
    if peak is None:
        return None
    known = reference()
    is_on_units = mode.uses_units(gpu)
    lanes = known.lanes(gpu) * gpu.fp32_flop_per_s
    product = known.units(gpu, mode.rates_of) * peak if is_on_units else lanes
    lane_power = _powered(known, gpu, REFERENCE, lanes)
    return Chip(
        gpu=gpu.name,
        precision=precision,
        is_half=mode.is_half,
        capability=gpu.compute_capability,
        is_cpu=gpu.kind is DeviceKind.CPU,
        is_on_units=is_on_units,
        product_peak_flop_per_s=peak * share,
        lane_peak_flop_per_s=gpu.fp32_flop_per_s * share,
        peak_bytes_per_s=gpu.bandwidth_bytes_per_s * share,
        product_flop_per_s=product * share,
        lane_flop_per_s=lanes * share,
        bytes_per_s=known.stream(gpu) * gpu.bandwidth_bytes_per_s * share,
        product_power_flop_per_s=(_powered(known, gpu, mode.rates_of, product) if is_on_units else lane_power)
        * share,
        lane_power_flop_per_s=lane_power * share,
        stream_power_fraction=known.stream_power_fraction,
        sm_count=gpu.sm_count,
        l2_bytes=gpu.l2_cache_bytes or 0,
        link=fabric_of(Hardware(gpu=gpu, link=gpu.link)).intra,
    )


def _powered(known: Reference, gpu: Gpu, precision: str, flop_per_s: float) -> float:
    limit = known.power_limited_flop_per_s(gpu, precision)
    return flop_per_s if limit is None else min(flop_per_s, limit)
