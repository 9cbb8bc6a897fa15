"""NeuSight's 80 NVIDIA rows: fp32 latency of six transformers on eight GPUs, from their traces alone.

Data: neusight/e2e_measured_vs_predicted.csv (Lee et al., ASPLOS 2025), the unfused rows of one GPU. The
traces are of the same models (neusight_models.py); the rates are those of
planner/estimate/time/reference.json, fitted to the operators of P4, P100, T4, V100 and A100-40, so that L4,
A100-80 and H100 are unseen, and no end-to-end time is used. Second table: the same with one GPU measured, for
every other GPU.

    python benchmarks/estimate/neusight.py [DATA]

Baselines, on the same rows: NeuSight 8.9%, roofline 31.4%.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.estimate.neusight_models import trace_row
from benchmarks.estimate.recorded import config_of, measurement_of, profile_of
from benchmarks.estimate.scores import Row, data_directory, leave_one_group_out, mape, row_of, summary
from catalogs.gpus import Gpu, load_gpus
from planner.estimate import Hardware, fit
from planner.estimate.time.chips import chip
from planner.estimate.time.operations import roofline_s, work_of
from trials.profile import Trace, WorkloadProfile
from trials.trial import Precision

GPUS = {
    "NVIDIA_A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA_A100_80GB_PCIe": "A100-PCIE-80GB",
    "NVIDIA_H100_80GB_HBM3": "H100-SXM5-80GB",
    "NVIDIA_L4": "L4-24GB",
    "Tesla_P100-PCIE-16GB": "P100-PCIE-16GB",
    "Tesla_P4": "P4-8GB",
    "Tesla_T4": "T4-16GB",
    "Tesla_V100-PCIE-32GB": "V100-PCIE-32GB",
}
UNSEEN = ("A100-PCIE-80GB", "H100-SXM5-80GB", "L4-24GB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One row of the table."""

    model: str
    sequence_length: int
    batch: int
    mode: str
    gpu: str
    seconds: float
    neusight_s: float

    @property
    def trace(self) -> Trace:
        """Of the same model, batch and mode."""
        return trace_row(self.model, self.sequence_length, self.batch, self.mode)

    @property
    def workload(self) -> tuple[str, str, int]:
        """What runs, on whatever GPU."""
        return self.model, self.mode, self.batch


def runs(data: Path) -> list[Run]:
    """The 80 rows."""
    table = pd.read_csv(data / "neusight" / "e2e_measured_vs_predicted.csv")
    table = table[table["option"].isna() & table["device"].isin(GPUS)]
    return [
        Run(
            model=str(one["model_name"]),
            sequence_length=int(one["seqlen"]),
            batch=int(one["batch"]),
            mode=str(one["mode"]),
            gpu=GPUS[one["device"]],
            seconds=float(one["label_all_e2e_latency"]) / 1e3,
            neusight_s=float(one["neusight_all_e2e_latency"]) / 1e3,
        )
        for one in table.to_dict("records")
    ]


def known_of(traces: Sequence[Trace]) -> WorkloadProfile:
    """What `planner check` would know."""
    return profile_of(traces[0].parameter_bytes // 4, traces)


def from_trace(all_: Sequence[Run], gpus: Mapping[str, Gpu]) -> list[tuple[Run, Row]]:
    """Every row, nothing measured."""
    found = []
    for one in all_:
        estimator = fit([], gpus=gpus, profile=known_of([one.trace]), is_training=one.mode == "train")
        hardware = Hardware(gpu=gpus[one.gpu], link=gpus[one.gpu].link)
        estimate = estimator.step_time_s(config_of(one.gpu, Precision.FP32, one.batch), hardware)
        assert estimate is not None
        found.append((one, row_of(f"{one.model} {one.mode}", one.seconds, estimate)))
    return found


def from_one_gpu(all_: Sequence[Run], gpus: Mapping[str, Gpu]) -> list[tuple[Run, Row]]:
    """Every row from every other GPU that the same workload was measured on, with its trace."""
    groups: dict[tuple[str, str, int], list[Run]] = defaultdict(list)
    for one in all_:
        groups[one.workload].append(one)
    found = []
    for group in groups.values():
        for source in group:
            known = measurement_of(config_of(source.gpu, Precision.FP32, source.batch), source.seconds)
            estimator = fit(
                [known],
                gpus=gpus,
                profile=known_of([source.trace]),
                is_training=source.mode == "train",
            )
            for target in group:
                if target.gpu != source.gpu:
                    hardware = Hardware(gpu=gpus[target.gpu], link=gpus[target.gpu].link)
                    config = config_of(target.gpu, Precision.FP32, target.batch)
                    estimate = estimator.step_time_s(config, hardware)
                    assert estimate is not None
                    found.append((target, row_of(f"{target.model} {target.mode}", target.seconds, estimate)))
    return found


def report(title: str, found: Sequence[tuple[Run, Row]]) -> None:
    """One line per GPU and mode, then the score."""
    print(f"\n{title}")
    for gpu in sorted({run.gpu for run, _ in found}):
        for mode in ("inf", "train"):
            rows = [row for run, row in found if run.gpu == gpu and run.mode == mode]
            if rows:
                bias = sum(row.error_fraction for row in rows) / len(rows)
                label = "unseen" if gpu in UNSEEN else ""
                print(
                    f"  {gpu:16s} {mode:5s} {len(rows):3d} rows {mape(rows):6.1%} (mean {bias:+6.1%}) {label}"
                )
    rows = [row for _, row in found]
    unseen = [row for run, row in found if run.gpu in UNSEEN]
    print(f"  all {summary(rows)}; unseen GPUs {mape(unseen):.1%}")
    print(f"  {leave_one_group_out(rows).line()}")


def main() -> None:
    """Both tables, and how often a prediction beats the roofline."""
    data, gpus = data_directory(__doc__), load_gpus()
    all_ = runs(data)
    alone = from_trace(all_, gpus)
    report("from the trace alone", alone)
    neusight = sum(abs(one.neusight_s / one.seconds - 1.0) for one in all_) / len(all_)
    worst = max(abs(one.neusight_s / one.seconds - 1.0) for one in all_)
    print(f"  NeuSight on these rows: {neusight:.1%}, worst {worst:.1%}")
    faster = 0
    for run, row in alone:
        known = chip(gpus[run.gpu], Precision.FP32)
        assert known is not None
        faster += row.predicted < roofline_s(work_of(run.trace), known)
    print(f"  predictions faster than the roofline: {faster}")
    report("one GPU measured, with the trace", from_one_gpu(all_, gpus))


if __name__ == "__main__":
    main()
