"""How often 90% intervals hold, test by test, when nothing of the predicted workload set their width.

Three ways to set it. Within: from the scores of the same data set's other workloads, as for a user whose
earlier studies ran on these machines. Pooled: from the other data sets only, each weighing the same, which is
what the product ships (planner/estimate/interval/spreads.json holds the quantiles of all of them). A data set
passes when the exact 95% confidence interval of its coverage contains 90%.

    python benchmarks/estimate/coverage.py [DATA]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.estimate import lines, llm_foundry_h100, neusight, transfer
from benchmarks.estimate.recorded import chips
from benchmarks.estimate.scores import (
    CONFIDENCE,
    Row,
    data_directory,
    exact_interval,
    leave_one_group_out,
    weighted_quantile,
)
from catalogs.gpus import load_gpus

Sets = dict[str, list[Row]]


def tests(data: Path) -> dict[str, Sets]:
    """Rows by test and data set."""
    gpus = chips()
    recordings = transfer.recordings(data)
    found: dict[str, Sets] = {}
    for label, has_peers in (("chips' figures only", False), ("other workloads known", True)):
        sets: Sets = {}
        for one in transfer.predictions(recordings, gpus, has_peers=has_peers):
            if one.target.stratum == "gpu-bound":
                sets.setdefault(one.target.dataset, []).append(one.row)
        found[label] = sets
    runs = neusight.runs(data)
    pairs = llm_foundry_h100.pairs(data).to_dict("records")
    found["with a trace"] = {
        "neusight": [row for _, row in neusight.from_one_gpu(runs, load_gpus())],
        "llm-foundry": [llm_foundry_h100.predicted(row, load_gpus())[1] for row in pairs],
    }
    found["trace alone"] = {
        "neusight": [row for _, row in neusight.from_trace(runs, load_gpus())],
        "llm-foundry": llm_foundry_h100.from_trace(data, load_gpus()),
    }
    sweeps: Sets = {}
    for (dataset, _task), rows in lines.scored(data, gpus).items():
        sweeps.setdefault(dataset, []).extend(rows)
    found["another batch"] = sweeps
    return found


def pooled_limit(sets: Mapping[str, Sequence[Row]], without: str) -> float:
    """The score that 90% stay below in the other data sets."""
    others = [rows for name, rows in sets.items() if name != without] or list(sets.values())
    scores = np.concatenate([[row.score for row in rows] for rows in others])
    weights = np.concatenate([np.full(len(rows), 1.0 / len(rows)) for rows in others])
    return weighted_quantile(scores, weights, CONFIDENCE)


def main() -> None:
    """One line per test and data set, then all together."""
    hits = pooled_hits = count = passed = total = 0
    print(f"{'test':22s} {'data set':12s} {'rows':>5s}  within: coverage (95%)         width   pooled")
    for test, sets in tests(data_directory(__doc__)).items():
        for name, rows in sets.items():
            inside = leave_one_group_out(rows)
            low, high = exact_interval(inside.hits, inside.count)
            limit = pooled_limit(sets, name)
            outside = sum(row.score <= limit for row in rows)
            verdict = "passes" if low <= CONFIDENCE <= high else "misses"
            print(
                f"{test:22s} {name:12s} {len(rows):5d}  {inside.hits / inside.count:6.1%}"
                f" ({low:5.1%} to {high:5.1%}) {verdict}  x/{math.exp(inside.median_half_width):4.2f}"
                f"  {outside / len(rows):6.1%}"
            )
            hits, count, pooled_hits = hits + inside.hits, count + inside.count, pooled_hits + outside
            passed, total = passed + (verdict == "passes"), total + 1
    print(
        f"\nall rows: within {hits / count:.1%}, pooled {pooled_hits / count:.1%}; {passed} of {total} pass"
    )


if __name__ == "__main__":
    main()
