"""Time of a traced step on a chip: each operation's, from its FLOPs, bytes and shape.

* Matrix products, by output tile: the tiles of a product are spread over the chip's SMs in waves, and the
  last wave may be partial (NVIDIA, "Matrix Multiplication Background"; Lee et al., NeuSight, ASPLOS 2025).
  A tile takes its FLOPs at the SM's share of the rate, plus the time to fill and drain its pipeline.
* Everything else moves bytes: at the rate that the memory reaches, or less often where they fit in L2.
* A kernel starts some microseconds after the one before it; the host launches one every so often. Whatever
  is longer in sum, the GPU's work or the host's, sets the pace.
* Power: a card whose limit does not pay for its clock slows matrix products; while the memory bounds, it
  draws less than the limit, which the controller (it averages over some 100 ms) lets the products use.

`roofline_s` is the bound that no prediction may beat: peak figures, nothing lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.estimate.time.chips import Chip
from planner.estimate.time.reference import reference
from planner.modes import PRECISIONS
from trials.api import Operation, OperationClass, Trace

Vector = NDArray[np.float64]

_PRODUCTS = (OperationClass.MATMUL, OperationClass.CONVOLUTION, OperationClass.ATTENTION)
_TILES = ((128.0, 128.0, 1.0), (128.0, 64.0, 0.95))  # rows, columns, share of the rate that it reaches
_SPLITS = (1.0, 2.0, 4.0, 8.0)  # of the inner dimension over tiles of their own (split-K)
_SHARPNESS = 4.0  # p-norm of a product's compute and memory time: they overlap within a kernel
_HOST_SHARPNESS = 4.0  # of a step's GPU and host time: the queue hides the shorter one
HALF_BYTES_FRACTION = 0.5  # of fp32's bytes under autocast: activations in half precision


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationWork:
    """A traced step as arrays; the optimizer's part apart."""

    micro_batch_size: int
    products: Vector  # rows of batch, m, n, k
    product_counts: Vector
    product_bytes: Vector
    is_product_fp32: NDArray[np.bool_]
    others: tuple[tuple[str, float, float, float], ...]  # convolutions, attention: class, FLOPs, bytes, count
    stream_bytes: Vector  # of memory-bound operations
    stream_counts: Vector
    stream_shares: Vector  # of elementwise kernels' rate
    optimizer_bytes: Vector
    optimizer_counts: Vector
    kernel_count: float  # without the optimizer
    flops: float  # of products, without the optimizer
    least_bytes: float  # without the optimizer


@dataclass(frozen=True, slots=True)
class StepTime:
    """Of one worker, without synchronisation."""

    optimizer_s: float  # once per step
    gpu_s: float  # per micro batch
    host_s: float  # per micro batch

    @property
    def micro_batch_s(self) -> float:
        """GPU and host side by side."""
        return float(np.hypot(self.gpu_s**2, self.host_s**2) ** 0.5)  # the p-norm with p = 4


def work_of(trace: Trace) -> OperationWork:
    """The arrays of a trace."""
    matmuls = [one for one in trace.operations if one.kind is OperationClass.MATMUL]
    others = [
        one for one in trace.operations if one.kind in _PRODUCTS and one.kind is not OperationClass.MATMUL
    ]
    optimizer = [one for one in trace.operations if one.kind is OperationClass.OPTIMIZER]
    streams = [
        one
        for one in trace.operations
        if one.kind not in _PRODUCTS and one.kind is not OperationClass.OPTIMIZER
    ]
    rowwise = reference().rowwise_fraction
    body = [*matmuls, *others, *streams]
    return OperationWork(
        micro_batch_size=trace.micro_batch_size,
        products=np.array([one.shape for one in matmuls], dtype=float).reshape(-1, 4),
        product_counts=_column(matmuls, "count"),
        product_bytes=_column(matmuls, "bytes"),
        is_product_fp32=np.array([_is_full_precision(one, trace) for one in matmuls], dtype=bool),
        others=tuple((one.kind.value, one.flops, one.bytes, float(one.count)) for one in others),
        stream_bytes=_column(streams, "bytes"),
        stream_counts=_column(streams, "count"),
        stream_shares=np.array([rowwise.get(one.kind.value, 1.0) for one in streams]),
        optimizer_bytes=_column(optimizer, "bytes"),
        optimizer_counts=_column(optimizer, "count"),
        kernel_count=float(sum(one.count for one in body)),
        flops=sum(one.flops * one.count for one in (*matmuls, *others)),
        least_bytes=sum(one.bytes * one.count for one in body),
    )


def step_time(work: OperationWork, chip: Chip, bytes_fraction: float = 1.0) -> StepTime:
    """Expected time of the step on ``chip``, nothing measured.

    Args:
        work: of the trace.
        chip: and its precision.
        bytes_fraction: of the traced bytes, where the trace is of another precision.
    """
    known = reference()
    product_s, product_power_s = _products_s(work, chip, bytes_fraction)
    streams_s = _streams_s(work.stream_bytes * bytes_fraction, chip) / work.stream_shares
    stream_s = float(streams_s @ work.stream_counts)
    optimizer_s = float(_streams_s(work.optimizer_bytes, chip) @ work.optimizer_counts)
    free_s = product_s + stream_s
    limited_s = product_power_s + chip.stream_power_fraction * stream_s
    gap_s = 0.0 if chip.is_cpu else known.kernel_s * work.kernel_count
    launches = float(work.optimizer_counts.sum())
    return StepTime(
        optimizer_s=max(optimizer_s, known.launch_s * launches),
        gpu_s=max(free_s, limited_s) + gap_s,
        host_s=known.launch_s * work.kernel_count,
    )


def roofline_s(work: OperationWork, chip: Chip) -> float:
    """Least time of one micro batch: all FLOPs at the highest peak, or each tensor of a product moved once.

    Elementwise tensors are left out: caches and fusion can keep them from the memory.
    """
    peak = max(chip.product_peak_flop_per_s, chip.lane_peak_flop_per_s)
    return work.flops / peak


def _column(operations: list[Operation], name: str) -> Vector:
    return np.array([getattr(one, name) for one in operations], dtype=float)


def _is_full_precision(operation: Operation, trace: Trace) -> bool:
    """A product left in fp32 by autocast, which then does not run on the precision's unit."""
    return operation.dtype == "float32" and PRECISIONS[trace.precision].is_half


def _products_s(work: OperationWork, chip: Chip, bytes_fraction: float) -> tuple[float, float]:
    """Seconds of all products: at the chip's clock, and at its power limit."""
    known = reference()
    fast = np.where(work.is_product_fp32, chip.lane_flop_per_s, chip.product_flop_per_s)
    powered = np.where(work.is_product_fp32, chip.lane_power_flop_per_s, chip.product_power_flop_per_s)
    product_bytes = work.product_bytes * bytes_fraction
    seconds = matmul_s(work.products, product_bytes, fast, chip) if len(fast) else fast
    limited = matmul_s(work.products, product_bytes, powered, chip) if chip.is_power_limited else seconds
    total, total_limited = float(seconds @ work.product_counts), float(limited @ work.product_counts)
    for kind, flops, moved, count in work.others:
        rate = known.product(kind, chip.capability, is_on_units=chip.is_on_units)
        memory_s = moved * bytes_fraction / chip.bytes_per_s
        total += count * max(flops / (rate * chip.product_flop_per_s), memory_s)
        total_limited += count * max(flops / (rate * chip.sustained_flop_per_s), memory_s)
    return total, total_limited


def matmul_s(
    shapes: Vector, moved_bytes: Vector, flop_per_s: Vector, chip: Chip, *, tile_s: float | None = None
) -> Vector:
    """Seconds of matrix products of ``shapes`` (batch, m, n, k) at ``flop_per_s`` for the whole chip.

    ``tile_s`` fills and drains the pipeline of a tile; the reference's where it is None.
    """
    batch, rows, columns, inner = shapes.T
    memory_s = moved_bytes / chip.bytes_per_s
    if chip.sm_count is None:  # no waves on a CPU
        return _norm(2.0 * batch * rows * columns * inner / flop_per_s, memory_s)
    if tile_s is None:
        tile_s = reference().unit_tile_s if chip.is_on_units else reference().lane_tile_s
    longer, shorter = np.maximum(rows, columns), np.minimum(rows, columns)
    element_bytes = 2.0 if chip.is_half else 4.0
    best: Vector = np.full(len(batch), np.inf)
    for tile_rows, tile_columns, share in _TILES:
        tiles = batch * np.ceil(longer / tile_rows) * np.ceil(shorter / tile_columns)
        for split in _SPLITS:
            waves = np.ceil(tiles * split / chip.sm_count)
            tile_flops = 2.0 * tile_rows * tile_columns * inner / split
            compute_s = waves * (tile_flops * chip.sm_count / (share * flop_per_s) + tile_s)
            extra = 2.0 * element_bytes * batch * rows * columns * split if split > 1.0 else 0.0
            best = np.minimum(best, _norm(compute_s, memory_s + extra / chip.bytes_per_s))
    return best


def _norm(first: Vector, second: Vector) -> Vector:
    joined: Vector = (first**_SHARPNESS + second**_SHARPNESS) ** (1.0 / _SHARPNESS)
    return joined


def _streams_s(moved_bytes: Vector, chip: Chip) -> Vector:
    cached = np.where(moved_bytes < chip.l2_bytes, reference().cached_fraction, 1.0)
    seconds: Vector = moved_bytes * cached / chip.bytes_per_s
    return seconds
