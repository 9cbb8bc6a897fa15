"""MPT 1B to 70B with FSDP by GPU type and count (mosaicml/llm-foundry), sequences of 2,048 tokens.

Micro batch, accumulation and checkpointing are what its authors chose for each row.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.estimate.mpt import MODELS as SIZES
from benchmarks.estimate.mpt import mpt_trace
from benchmarks.estimate.recorded import profile_of
from benchmarks.estimate.scaling_llm_foundry import GPUS_PER_NODE, LINKS, step_s_of
from benchmarks.search.grid import Grid, Point
from planner.estimate.scaling.collectives import Transport
from trials.profile import WorkloadProfile
from trials.trial import Parallelism, Precision, TrialConfig

SEQUENCE_LENGTH = 2048
MODELS = ("1b", "3b", "7b", "13b", "30b", "70b")
NAMES = {"a100_40gb": "A100-SXM4-40GB", "a100_80gb": "A100-SXM4-80GB", "h100_80gb": "H100-SXM5-80GB"}


def grids(data: Path) -> tuple[Grid, ...]:
    """One per model; bf16 only."""
    table = pd.read_csv(data / "llm_foundry" / "mpt_training_benchmarks.csv")
    table = table[(table["SeqLen (T)"] == SEQUENCE_LENGTH) & table["Precision"].str.contains("bf16")]
    table = table.drop_duplicates(["Model", "GPU", "# GPUs"])
    return tuple(
        Grid(
            data_set="llm_foundry",
            name=f"mpt-{model}",
            dimensions=("gpu", "gpu_count"),
            points=tuple(_point(one) for one in table[table["Model"] == model].to_dict("records")),
            instance_sizes=dict.fromkeys(NAMES.values(), (GPUS_PER_NODE,)),
            profile=_profile(model),
            network_bytes_per_s={
                name: LINKS[key.split("_")[0]][Transport.RDMA] for key, name in NAMES.items()
            },
        )
        for model in MODELS
    )


def _point(row: dict[str, Any]) -> Point:
    gpu, gpu_count = NAMES[row["GPU"]], int(row["# GPUs"])
    config = TrialConfig(
        gpu=gpu,
        gpu_count=gpu_count,
        node_count=math.ceil(gpu_count / GPUS_PER_NODE),
        micro_batch_size=int(row["MicroBatchSize"]),
        accumulation=int(row["GradAccum"]),
        precision=Precision.BF16,
        parallelism=Parallelism.FSDP2,
        techniques=("activation_checkpointing",) if row["Activation Checkpointing"] else (),
    )
    return Point(values=(gpu, float(gpu_count)), config=config, step_s=step_s_of(row), samples=1e8)


def _profile(model: str) -> WorkloadProfile:
    """With the traces that a check would have made: two micro batches, with and without checkpointing."""
    mpt = SIZES[model]
    traces = tuple(
        mpt_trace(mpt, SEQUENCE_LENGTH, size, is_checkpointed=is_checkpointed)
        for is_checkpointed in (False, True)
        for size in (1, 8)
    )
    return profile_of(mpt.parameter_count, traces, block_count=mpt.depth)
