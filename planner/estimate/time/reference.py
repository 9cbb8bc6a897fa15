"""Which share of a chip's peak figures kernels reach: a small table, from public measurements.

``reference.json`` is written by benchmarks/estimate/fit_reference.py, which fits what it can to the operator
times of five chips (NeuSight's, P4 to A100) and carries the citations of the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from catalogs.gpus import DeviceKind, Gpu

_HBM_CAPABILITIES = frozenset({6.0, 7.0, 8.0, 9.0, 10.0, 10.3})
"""Compute capabilities of the chips with stacked memory; all others have GDDR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Shares of peak figures, and the few times and energies that do not follow from a peak."""

    lane_fraction: dict[str, float]  # of peak fp32, large matrix products, by compute capability
    unit_fraction: dict[str, float]  # of the matrix units' peak, by precision, or precision and capability
    stream_fraction: dict[str, float]  # of peak bandwidth, by kind of memory
    fp32_flop_j: dict[str, float]  # energy of one fp32 FLOP under load, by architecture
    unit_energy_fraction: dict[str, float]  # of fp32's, for a FLOP on the matrix units, by precision
    rowwise_fraction: dict[str, float]  # of elementwise kernels' rate, by operation class
    stream_power_fraction: float  # of the power limit, drawn while the memory bounds
    lane_tile_s: float  # to fill and drain the pipeline of one output tile
    unit_tile_s: float  # the same on matrix units
    product_fraction: dict[
        str, float
    ]  # of a matrix product's rate: convolution, on lanes and on units; fused attention, by capability
    cached_fraction: float  # of its bytes that a kernel moves to memory when its tensors fit in L2
    kernel_s: float  # between two kernels, on the GPU
    launch_s: float  # of one kernel, on the host, from eager PyTorch

    def lanes(self, gpu: Gpu) -> float:
        """Share of peak fp32 FLOP/s that large matrix products reach, power aside."""
        if gpu.kind is DeviceKind.CPU:
            return self.lane_fraction["cpu"]
        known = self.lane_fraction.get(f"{gpu.compute_capability}")
        return self.lane_fraction["other"] if known is None else known

    def units(self, gpu: Gpu, precision: str) -> float:
        """Share of the matrix units' peak that large matrix products reach, power aside."""
        by_chip = self.unit_fraction.get(f"{precision} {gpu.compute_capability}")
        return self.unit_fraction[precision] if by_chip is None else by_chip

    def stream(self, gpu: Gpu) -> float:
        """Share of peak bandwidth that elementwise kernels reach."""
        if gpu.kind is DeviceKind.CPU:
            return self.stream_fraction["cpu"]
        by_chip = self.stream_fraction.get(f"{gpu.compute_capability}")
        kind = "hbm" if gpu.compute_capability in _HBM_CAPABILITIES else "gddr"
        return self.stream_fraction[kind] if by_chip is None else by_chip

    def product(self, kind: str, capability: float | None, *, is_on_units: bool) -> float:
        """Share of a matrix product's rate that a convolution or fused attention reaches."""
        names = (f"{kind} {capability}", *((f"{kind} units",) if is_on_units else ()), kind)
        return next(self.product_fraction[name] for name in names if name in self.product_fraction)

    def power_limited_flop_per_s(self, gpu: Gpu, precision: str) -> float | None:
        """FLOP/s that the card's power pays for; None where power or architecture is unknown."""
        flop_j = self.fp32_flop_j.get(gpu.architecture)
        if gpu.power_w is None or flop_j is None or gpu.kind is DeviceKind.CPU:
            return None
        return gpu.power_w / (flop_j * self.unit_energy_fraction.get(precision, 1.0))


@cache
def reference() -> Reference:
    """The shipped table."""
    text = resources.files("planner.estimate.time").joinpath("reference.json").read_text(encoding="utf-8")
    return parse_reference(json.loads(text))


def parse_reference(values: dict[str, Any]) -> Reference:
    """The table from its JSON; sources and comments in it are left out."""
    return Reference(**{name: values[name] for name in Reference.__dataclass_fields__})
