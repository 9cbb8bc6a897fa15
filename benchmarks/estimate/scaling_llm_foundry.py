"""MPT 125M to 70B with FSDP on A100 and H100: from the smallest GPU count of a series to its larger ones.

Data: mosaicml/llm-foundry (llm_foundry/mpt_training_benchmarks.csv). A series is one GPU type, model,
sequence length, precision, checkpointing and sharding strategy. One measured step time per series goes in;
micro batch and accumulation differ between its rows. No constant is fitted to any row; the intervals of a
model come from the other models.

Baseline: constant tokens per second and GPU, 6.6%.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.estimate.scores import Row, data_directory, leave_one_group_out, mape, worst_factor
from planner.estimate.scaling.collectives import Fabric, Group, Transport, channel_of
from planner.estimate.scaling.overlap import WorkerStep
from planner.estimate.scaling.scaling_model import ScalingModel, fit_scaling
from planner.modes.fsdp2 import sharded_traffic
from trials.trial import Parallelism

LAYERS = {  # scripts/train/yamls/pretrain/mpt-*.yaml
    "125m": 12,
    "350m": 24,
    "760m": 24,
    "1b": 24,
    "3b": 32,
    "7b": 32,
    "13b": 40,
    "30b": 48,
    "70b": 80,
}
LINKS = {  # NVLink one way per GPU; network per node of 8: 1600 Gbit/s (the file), 3200 Gbit/s (DGX H100)
    "a100": {Transport.NVLINK: 300e9, Transport.RDMA: 200e9},
    "h100": {Transport.NVLINK: 450e9, Transport.RDMA: 400e9},
}
SERIES = ["GPU", "Model", "SeqLen (T)", "Precision", "Activation Checkpointing", "Sharding Strategy"]
MICRO_BATCH_LOG_SPREAD = 0.08  # of time per sample, per doubling of the micro batch: other kernels
GPUS_PER_NODE = 8


def model_of(row: Any) -> ScalingModel:
    """The scaling of a series: links and traffic from figures alone."""
    links = LINKS[row["GPU"].split("_")[0]]
    intra, inter = (channel_of(one, speed) for one, speed in links.items())
    traffic = sharded_traffic(
        int(row["NumParams"]),
        LAYERS[row["Model"]],
        bytes_per_parameter=2,  # Composer gathers in bf16 under PURE and DEFAULT
        bytes_per_gradient=2 if row["MP Mode"] == "PURE" else 4,  # and reduces in fp32 under DEFAULT
        is_resharded_after_forward=row["Sharding Strategy"] == "FULL_SHARD",
    )
    return fit_scaling([], Parallelism.FSDP2, traffic, Fabric(intra=intra, inter=inter))


def group_of(row: Any) -> Group:
    """Nodes of eight."""
    count = int(row["# GPUs"])
    return Group(rank_count=count, node_count=math.ceil(count / GPUS_PER_NODE))


def step_s_of(row: Any) -> float:
    """Measured: tokens of a worker's step over its tokens per second."""
    tokens = row["MicroBatchSize"] * row["GradAccum"] * row["SeqLen (T)"]
    return float(tokens / row["Throughput (T/s/GPU)"])


def predictions(data: Path) -> tuple[list[Row], list[Row]]:
    """Of this package, and of constant tokens per second and GPU."""
    table = pd.read_csv(data / "llm_foundry" / "mpt_training_benchmarks.csv")
    ours: list[Row] = []
    constant: list[Row] = []
    for _, series in table.groupby(SERIES):
        records = series.sort_values("# GPUs").to_dict("records")
        first, scaling = records[0], model_of(records[0])
        given = WorkerStep(micro_batch_s=0.0, accumulation=first["GradAccum"])
        per_sample_s = (
            scaling.micro_batch_s(step_s_of(first), given, group_of(first)) / first["MicroBatchSize"]
        )
        for row in (one for one in records if one["# GPUs"] > first["# GPUs"]):
            work = WorkerStep(
                micro_batch_s=per_sample_s * row["MicroBatchSize"], accumulation=row["GradAccum"]
            )
            doublings = abs(math.log2(row["MicroBatchSize"] / first["MicroBatchSize"]))
            shorter, longer = scaling.error_scale(work, group_of(row), measured_count=first["# GPUs"])
            rate = row["MicroBatchSize"] * row["GradAccum"] * row["SeqLen (T)"]
            ours.append(
                Row(
                    group=row["Model"],
                    measured=row["Throughput (T/s/GPU)"],
                    predicted=rate / scaling.step_s(work, group_of(row)),
                    below=math.hypot(longer, MICRO_BATCH_LOG_SPREAD * doublings),  # a rate: sides swap
                    above=math.hypot(shorter, MICRO_BATCH_LOG_SPREAD * doublings),
                )
            )
            constant.append(
                Row(
                    group=row["Model"],
                    measured=row["Throughput (T/s/GPU)"],
                    predicted=first["Throughput (T/s/GPU)"],
                )
            )
    return ours, constant


def main() -> None:
    """Print the table."""
    rows, constant = predictions(data_directory(__doc__))
    print(f"{'model':8}{'rows':>6}{'error':>9}{'constant':>10}{'worst':>8}")
    for name in LAYERS:
        mine = [row for row in rows if row.group == name]
        base = [row for row in constant if row.group == name]
        if mine:
            print(f"{name:8}{len(mine):6}{mape(mine):9.1%}{mape(base):10.1%}{worst_factor(mine):7.2f}x")
    print(
        f"{'all':8}{len(rows):6}{mape(rows):9.1%}{mape(constant):10.1%}{worst_factor(rows):7.2f}x"
        "   (aim: under 5%)"
    )
    print(leave_one_group_out(rows).line())


if __name__ == "__main__":
    main()
