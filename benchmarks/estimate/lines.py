"""Another batch size on a measured GPU: two or three sizes measured, the others predicted from the line.

Data: the batch sweeps of transfer/single_gpu_times.csv (zeus, sailor) and the single-GPU rows of
sia_t4/step_times.csv. For every workload and GPU: given the smallest and the largest size, every size
between; given the two smallest, every larger one.

    python benchmarks/estimate/lines.py [DATA]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from benchmarks.estimate.recorded import chips, config_of, measurement_of
from benchmarks.estimate.scores import Row, data_directory, leave_one_group_out, row_of, summary
from benchmarks.estimate.single_gpu_times import recordings
from catalogs.gpus import Gpu
from planner.estimate import Hardware, fit
from trials.trial import Precision

Sweep = dict[int, float]  # batch size -> seconds per step


def sweeps(data: Path) -> dict[tuple[str, str, str], Sweep]:
    """By data set, workload and GPU; four sizes or more."""
    found: dict[tuple[str, str, str], Sweep] = defaultdict(dict)
    for one in recordings(data):
        if one.dataset in ("zeus", "sailor"):
            found[one.dataset, one.workload, one.gpu][one.batch] = one.step_s
    table = pd.read_csv(data / "sia_t4" / "step_times.csv")
    for row in table[table["k"] == 1].to_dict("records"):
        found["sia_t4", str(row["model"]), "T4-16GB"][int(row["local_bsz"])] = float(row["step_time"])
    return {key: sweep for key, sweep in found.items() if len(sweep) >= 4}


def predictions(sweep: Sweep, known: Iterable[int], gpu: Gpu, group: str) -> list[Row]:
    """Sizes beside ``known`` (within, or up to eight times beyond) from the line through them."""
    sizes = sorted(known)
    estimator = fit(
        [measurement_of(config_of(gpu.name, Precision.FP32, size), sweep[size]) for size in sizes],
        gpus={gpu.name: gpu},
    )
    rows = []
    for size, seconds in sweep.items():
        if size in sizes or not sizes[0] <= size <= 8 * sizes[-1]:
            continue
        estimate = estimator.step_time_s(
            config_of(gpu.name, Precision.FP32, size), Hardware(gpu=gpu, link=gpu.link)
        )
        assert estimate is not None
        rows.append(row_of(group, seconds, estimate))
    return rows


def scored(data: Path, gpus: Mapping[str, Gpu]) -> dict[tuple[str, str], list[Row]]:
    """By data set and task."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for (dataset, workload, gpu), sweep in sweeps(data).items():
        sizes = sorted(sweep)
        ends = predictions(sweep, (sizes[0], sizes[-1]), gpus[gpu], workload)
        found[dataset, "between two"] += ends
        found[dataset, "beyond two"] += predictions(sweep, sizes[:2], gpus[gpu], workload)
    return found


def main() -> None:
    """One line per data set and task."""
    for (dataset, task), rows in scored(data_directory(__doc__), chips()).items():
        print(f"{dataset:8s} {task:12s} {summary(rows)}")
        print(f"{'':8s} {leave_one_group_out(rows).line()}")


if __name__ == "__main__":
    main()
