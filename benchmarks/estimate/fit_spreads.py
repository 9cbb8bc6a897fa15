"""Writes planner/estimate/interval/spreads.json: how much wider than its own spread an interval must be.

The score of a prediction is |log(measured / predicted)| over the spread that the estimator gave it. Each data
set weighs the same, whatever its number of rows; the file has the quantiles of the scores by what the
prediction rests on. Every prediction left its target GPU out.

    python benchmarks/estimate/fit_spreads.py [DATA]          # prints the quantiles and writes the file
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.estimate import lines, llm_foundry_h100, neusight, transfer
from benchmarks.estimate.recorded import chips
from benchmarks.estimate.scores import Row, data_directory, weighted_quantile
from catalogs.gpus import load_gpus
from planner.estimate.interval.conformal import Ground, spreads

TARGET = Path(__file__).resolve().parents[2] / "planner" / "estimate" / "interval" / "spreads.json"
PROBABILITIES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975)
CONFIDENCE = 0.9  # of the intervals that the benchmarks ask for


def scores_by_ground(data: Path) -> dict[Ground, dict[str, list[Row]]]:
    """Rows of every data set whose predictions rest on each ground."""
    gpus = chips()
    found: dict[Ground, dict[str, list[Row]]] = {ground: {} for ground in Ground}
    for one in transfer.predictions(transfer.recordings(data), gpus, has_peers=False):
        if one.target.stratum == "gpu-bound":
            found[Ground.CHIPS].setdefault(one.target.dataset, []).append(one.row)
    all_ = neusight.runs(data)
    found[Ground.TRACED]["neusight"] = [row for _, row in neusight.from_one_gpu(all_, load_gpus())]
    pairs = llm_foundry_h100.pairs(data).to_dict("records")
    found[Ground.TRACED]["llm-foundry"] = [llm_foundry_h100.predicted(row, load_gpus())[1] for row in pairs]
    found[Ground.TRACE_ALONE]["neusight"] = [row for _, row in neusight.from_trace(all_, load_gpus())]
    found[Ground.TRACE_ALONE]["llm-foundry"] = llm_foundry_h100.from_trace(data, load_gpus())
    for (dataset, task), rows in lines.scored(data, gpus).items():
        found[Ground.LINE][f"{dataset} {task}"] = rows
    return found


def quantiles(rows: Mapping[str, Sequence[Row]], ground: Ground) -> tuple[float, ...]:
    """Of the scores of one ground, data sets weighing the same."""
    multiplier = spreads().multiplier(ground, CONFIDENCE)
    scores = np.concatenate([[one.score * multiplier for one in mine] for mine in rows.values()])
    weights = np.concatenate([np.full(len(mine), 1.0 / len(mine)) for mine in rows.values()])
    return tuple(round(weighted_quantile(scores, weights, one), 2) for one in PROBABILITIES)


def main() -> None:
    """Fit, print, write."""
    found = scores_by_ground(data_directory(__doc__))
    scores = {ground.value: quantiles(rows, ground) for ground, rows in found.items()}
    for ground, rows in found.items():
        counts = ", ".join(f"{name} {len(mine)}" for name, mine in rows.items())
        print(f"{ground.value} ({counts}):")
        print(
            "  "
            + "  ".join(f"{p:.1%} {q:.2f}" for p, q in zip(PROBABILITIES, scores[ground.value], strict=True))
        )
    values = {"probabilities": PROBABILITIES, "scores": scores}
    TARGET.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
