"""Six PyTorch models on 1 to 16 nodes of four T4: given one GPU, two in a node, and one on each of two nodes.

Data: AdaptDL artifact (sia_t4/step_times.csv). Every other count and placement is predicted; for each model
from its own rows of those three placements alone. Intervals of a model come from the other five.

Baselines: perfect scaling 50.2%, the sync time of two workers at any count 25.6%, Pollux refitted 22.8%.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.estimate.scores import (
    CONFIDENCE,
    Row,
    data_directory,
    leave_one_group_out,
    mape,
    worst_factor,
)
from planner.estimate.scaling.collectives import Fabric, Group, Transport, channel_of
from planner.estimate.scaling.overlap import WorkerStep
from planner.estimate.scaling.scaling_model import SCORE_QUANTILES, ScalingModel, ScalingPoint, fit_scaling
from planner.modes.ddp import gradient_traffic
from trials.trial import Parallelism

LINKS = {Transport.PCIE: 15.75e9, Transport.TCP: 50e9 / 8}  # T4 data sheet; g4dn.12xlarge: 50 Gbit/s
PARAMETERS = {  # BERT-base, ResNet-18, ResNet-50, YOLOv3: from their papers
    "bert": 110_000_000,
    "cifar10": 11_200_000,
    "imagenet": 25_600_000,
    "yolov3": 61_900_000,
}


def fabric() -> Fabric:
    """The nodes' links as the catalog would give them."""
    intra, inter = (channel_of(one, speed) for one, speed in LINKS.items())
    return Fabric(intra=intra, inter=inter)


def predictions(data: Path) -> list[Row]:
    """Every row with more than two GPUs; the file does not tell the models' sizes."""
    table = pd.read_csv(data / "sia_t4" / "step_times.csv")
    rows: list[Row] = []
    for name, model in table.groupby("model"):
        alone = model[model.k == 1].set_index("local_bsz").step_time.to_dict()
        points = [
            ScalingPoint(
                work=WorkerStep(micro_batch_s=alone[one.local_bsz]),
                group=Group(rank_count=one.k, node_count=one.nn),
                step_s=one.step_time,
            )
            for one in model[model.k == 2].itertuples()
        ]
        scaling = fit_scaling(points, Parallelism.DDP, gradient_traffic(None), fabric())
        rows += [_row(str(name), one, alone, scaling, 2) for one in model[model.k > 2].itertuples()]
    return rows


def from_one_gpu(data: Path) -> list[Row]:
    """The same, and the pairs, where only one GPU was measured: links and sizes from figures."""
    table = pd.read_csv(data / "sia_t4" / "step_times.csv")
    rows: list[Row] = []
    for name, count in PARAMETERS.items():
        model = table[table.model == name]
        alone = model[model.k == 1].set_index("local_bsz").step_time.to_dict()
        scaling = fit_scaling([], Parallelism.DDP, gradient_traffic(count), fabric())
        rows += [_row(name, one, alone, scaling, 1) for one in model[model.k > 1].itertuples()]
    return rows


def _row(name: str, one: Any, alone: Mapping[int, float], scaling: ScalingModel, measured_count: int) -> Row:
    """The prediction of one line of the file."""
    work, group = WorkerStep(micro_batch_s=alone[one.local_bsz]), Group(rank_count=one.k, node_count=one.nn)
    below, above = scaling.error_scale(work, group, measured_count=measured_count)
    return Row(
        group=name, measured=one.step_time, predicted=scaling.step_s(work, group), below=below, above=above
    )


def main() -> None:
    """Print the tables."""
    data = data_directory(__doc__)
    rows = predictions(data)
    print(f"{'model':14}{'rows':>6}{'error':>9}{'bias':>9}{'worst':>8}")
    for name in sorted({row.group for row in rows}):
        mine = [row for row in rows if row.group == name]
        bias = sum(row.error_fraction for row in mine) / len(mine)
        print(f"{name:14}{len(mine):6}{mape(mine):9.1%}{bias:+9.1%}{worst_factor(mine):7.2f}x")
    print(f"{'all':14}{len(rows):6}{mape(rows):9.1%}{'':9}{worst_factor(rows):7.2f}x   (aim: under 15%)")
    print(leave_one_group_out(rows).line())
    wide = from_one_gpu(data)
    limit = SCORE_QUANTILES[CONFIDENCE]
    held = sum(row.score <= limit for row in wide) / len(wide)
    median = sorted(math.exp(limit * row.above) for row in wide)[len(wide) // 2]
    print(
        f"one GPU measured, {len(PARAMETERS)} models of known size: {mape(wide):.1%}, worst"
        f" {worst_factor(wide):.2f}x; shipped 90% intervals hold {held:.1%}, up to x{median:.1f} (median)"
    )


if __name__ == "__main__":
    main()
