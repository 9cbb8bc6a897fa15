"""Traffic of tensor-parallel ranks, where nothing is known of the model but its measurements.

A transformer layer of width h on t ranks computes 72 s h^2 / t FLOPs per sample of s tokens and rank, forward
and backward, and all-reduces its s h activations four times (Narayanan et al., SC 2021; attention's own FLOPs
are left out). So a rank sends 4 x 4 s h bytes of fp32 for so many FLOPs: the wider the model, the less it
waits. The width is unknown; `workload_decomposition` weighs a prior of widths. Latencies do not grow with the
batch and count for the host's part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.estimate.scaling.collectives import traffic_fraction
from planner.estimate.time.chips import Chip
from planner.modes.terms import CollectiveOperation

Vector = NDArray[np.float64]

WIDTH = 2048.0
"""Median width of models trained with tensor parallelism: between GPT-2 medium (1024) and Llama 7B (4096)."""
WIDTH_LOG_SPREAD = 0.7
_REDUCED_BYTES = 4 * 4.0  # per token and unit of width: four all-reduces in fp32
_LAYER_FLOP = 72.0  # per token and unit of width squared


def link_s_per_flop(chip: Chip, width: Vector, tensor_count: int) -> Vector:
    """Seconds on the link per FLOP of one rank, with fp32 activations, by the width of the model.

    Args:
        chip: of each rank, all in one node.
        width: of the model.
        tensor_count: ranks that share each matrix; 1 exchanges nothing.
    """
    bytes_per_flop = _REDUCED_BYTES * tensor_count / (_LAYER_FLOP * width)
    carried = traffic_fraction(CollectiveOperation.ALL_REDUCE, tensor_count)
    seconds: Vector = carried * bytes_per_flop / chip.link.bytes_per_s
    return seconds
