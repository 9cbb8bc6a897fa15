"""Megatron-DeepSpeed on 2 to 8 A100 by tensor, pipeline and data parallelism, from a random 10% of layouts.

Data: VIA-Research/vTrain (vtrain/ground_truth_single.csv), 1,440 layouts. 144 rows drawn at random calibrate
the constants of `planner.estimate.scaling.pipeline` and the offsets of the layer shapes among them; the other
1,296 are predicted. The draw is repeated; nothing of the predicted rows is used. The width of the intervals
is the geometric mean of two: what the model's own uncertainty says, and the conformal quantile of 24-fold
cross-validation within the 144 (144 points alone leave that quantile uncertain by a tenth).

Baselines: constant FLOP/s and bubble 52.7%, random forest on the same 10% 22.3%, vTrain's simulator with an
operator profile 8.4%.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pandas as pd

from benchmarks.estimate.scores import (
    CONFIDENCE,
    Coverage,
    Row,
    data_directory,
    mape,
    quantile,
    summary,
    worst_factor,
)
from planner.estimate.scaling.collectives import Fabric, Transport, channel_of
from planner.estimate.scaling.layout import Layout, TransformerShape
from planner.estimate.scaling.pipeline import LayoutModel, LayoutPoint, MegatronMachine, fit_layouts, step_s

DRAWS = 5
SHARE = 0.1
FOLDS = 24
NORMAL_LIMIT = 1.645  # a 90% interval if the model's own scale were right and its errors normal
VOCABULARY = 51_200  # Megatron pads GPT-2's 50,257
COLUMNS = ["gpus", "batch", "micro", "hidden", "heads", "layers", "sequence", "tensor", "data", "pipe", "ms"]


def machine() -> MegatronMachine:
    """A100-SXM4-40GB: 312 TFLOP/s in half precision, 1,555 GB/s, NVLink of 300 GB/s one way."""
    intra, inter = channel_of(Transport.NVLINK, 300e9), channel_of(Transport.RDMA, 50e9)
    return MegatronMachine(flop_per_s=312e12, bytes_per_s=1555e9, fabric=Fabric(intra=intra, inter=inter))


def points(data: Path) -> list[LayoutPoint]:
    """All rows of the file."""
    table = pd.read_csv(data / "vtrain" / "ground_truth_single.csv", encoding="utf-8-sig")
    table.columns = pd.Index(COLUMNS)
    return [
        LayoutPoint(
            shape=TransformerShape(
                layer_count=one.layers,
                hidden_size=one.hidden,
                head_count=one.heads,
                sequence_length=one.sequence,
                vocabulary_size=VOCABULARY,
            ),
            layout=Layout(
                tensor=one.tensor,
                pipeline=one.pipe,
                data=one.data,
                micro_batch_size=one.micro,
                micro_batch_count=one.batch // one.data // one.micro,
                workers_per_node=8,
            ),
            step_s=one.ms / 1e3,
        )
        for one in table.itertuples()
    ]


def row_of(point: LayoutPoint, model: LayoutModel) -> Row:
    """A prediction; layouts of one draw are exchangeable, so the group does not matter."""
    below, above = model.error_scale(point.shape, point.layout)
    return Row(
        group="all",
        measured=point.step_s,
        predicted=model.step_s(point.shape, point.layout),
        below=below,
        above=above,
    )


def cross_validated(given: list[LayoutPoint]) -> list[float]:
    """Scores of the calibration rows, each predicted from the other folds."""
    found: list[float] = []
    for fold in range(FOLDS):
        model = fit_layouts([one for i, one in enumerate(given) if i % FOLDS != fold], machine())
        rows = [row_of(one, model) for i, one in enumerate(given) if i % FOLDS == fold]
        found += [row.score for row in rows]
    return found


def main() -> None:
    """Print the table."""
    every = points(data_directory(__doc__))
    print(f"{'draw':>5}{'formula':>10}{'+ shapes':>10}{'worst':>8}")
    errors: list[float] = []
    hits = 0
    for draw in range(DRAWS):
        mixed = random.Random(draw).sample(every, len(every))
        count = round(SHARE * len(every))
        given, rest = mixed[:count], mixed[count:]
        model = fit_layouts(given, machine())
        rows = [row_of(one, model) for one in rest]
        bare = [
            Row(
                group="all",
                measured=one.step_s,
                predicted=step_s(one.shape, one.layout, model.machine, model.fit.constants),
            )
            for one in rest
        ]
        errors.append(mape(rows))
        limit = math.sqrt(NORMAL_LIMIT * quantile(cross_validated(given), CONFIDENCE))
        widths = sorted(limit * row.scale for row in rows)
        coverage = Coverage(
            hits=sum(row.score <= limit for row in rows),
            count=len(rows),
            median_half_width=widths[len(widths) // 2],
        )
        hits += coverage.hits
        print(f"{draw:5}{mape(bare):10.1%}{mape(rows):10.1%}{worst_factor(rows):7.2f}x  {coverage.line()}")
    print(f"mean error {sum(errors) / len(errors):.1%}, worst draw {max(errors):.1%}   (aim: under 10%)")
    pooled = Coverage(
        hits=hits, count=DRAWS * (len(every) - round(SHARE * len(every))), median_half_width=0.0
    )
    print(f"all draws: {pooled.line().split(';')[0]}")
    unmeasured = fit_layouts([], machine())
    rows = [row_of(one, unmeasured) for one in every]
    print(f"nothing measured, constants as cited, {summary(rows)}")


if __name__ == "__main__":
    main()
