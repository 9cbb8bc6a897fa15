"""Six PyTorch models on nodes of four T4: GPU count and micro batch size (AdaptDL artifact, sia_t4).

Counts are powers of two on as few nodes as hold them, which is what a sweep would try.
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from benchmarks.estimate.recorded import profile_of
from benchmarks.estimate.scaling_sia_t4 import LINKS, PARAMETERS
from benchmarks.search.grid import Grid, Point
from planner.estimate.scaling.collectives import Transport
from trials.trial import Parallelism, Precision, TrialConfig

GPU = "T4-16GB"
GPUS_PER_NODE = 4


def grids(data: Path) -> tuple[Grid, ...]:
    """One per model."""
    table = pd.read_csv(data / "sia_t4" / "step_times.csv")
    is_usual = (table["nn"] == (table["k"] / GPUS_PER_NODE).apply(math.ceil)) & (
        table["k"].apply(lambda count: count & (count - 1)) == 0
    )
    return tuple(
        Grid(
            data_set="sia_t4",
            name=str(model),
            dimensions=("gpu_count", "micro_batch_size"),
            points=tuple(_point(one.k, one.nn, one.local_bsz, one.step_time) for one in rows.itertuples()),
            instance_sizes={GPU: (1, GPUS_PER_NODE)},
            profile=profile_of(PARAMETERS.get(str(model), 0)),
            network_bytes_per_s={GPU: LINKS[Transport.TCP]},
        )
        for model, rows in table[is_usual].groupby("model")
    )


def _point(gpu_count: int, node_count: int, micro_batch_size: int, step_s: float) -> Point:
    config = TrialConfig(
        gpu=GPU,
        gpu_count=int(gpu_count),
        node_count=int(node_count),
        micro_batch_size=int(micro_batch_size),
        accumulation=1,
        precision=Precision.FP32,
        parallelism=Parallelism.SINGLE if gpu_count == 1 else Parallelism.DDP,
    )
    return Point(
        values=(float(gpu_count), float(micro_batch_size)), config=config, step_s=float(step_s), samples=1e6
    )
