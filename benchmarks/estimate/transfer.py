"""Step time from one GPU to another: from the chips' figures, and with other workloads known on both.

Data: transfer/single_gpu_times.csv, six recordings. For every workload and every GPU that it ran on, an
estimator is fitted to what was recorded there (all its batch sizes and precisions), and predicts the same
workload, batch and precision on every other GPU of the data set. Nothing of the target GPU, and nothing of
the workload on it, enters; with `--peers` the data set's *other* workloads on the two GPUs do.

    python benchmarks/estimate/transfer.py [DATA]

Baselines: ratio of peak FLOP/s, of bandwidth, their geometric mean; with other workloads known, the median
of their ratios. Rows of stratum host-bound are scored apart: no chip's figure decides them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import mean, median
from typing import TypeVar

from benchmarks.estimate.recorded import chips, config_of, measurement_of
from benchmarks.estimate.scores import (
    Row,
    data_directory,
    leave_one_group_out,
    mape,
    mape_expected,
    row_of,
    worst_factor,
)
from benchmarks.estimate.single_gpu_times import Recording, recordings
from catalogs.gpus import Gpu
from planner.estimate import Hardware, fit
from planner.estimate.other_workloads import OtherWorkload, cross_workload_ratios
from planner.estimate.time.chips import peak_flop_per_s
from planner.estimate.transfer.cross_workload import CrossWorkloadRatios
from planner.plans.plan import HOST_BOUND_FRACTION
from trials.measurement import Measurement

Item = TypeVar("Item")

UNLICENSED = ("ryujaehun",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """From one GPU to another."""

    source: Recording
    target: Recording
    row: Row
    host_fraction: float  # of the step on the target, that the estimator takes for the host's

    @property
    def beyond_class(self) -> str:
        """What a plan's reader would be told of such a row, or what the estimator is not told."""
        if self.target.tensor_count > 1:
            return "tensor parallel (traffic over a link that nobody measured)"
        if self.host_fraction >= HOST_BOUND_FRACTION:
            return "host-bound by the estimator's own word (the report warns)"
        return "said to be GPU-bound"


def predictions(rows: Iterable[Recording], gpus: Mapping[str, Gpu], *, has_peers: bool) -> list[Prediction]:
    """Every recording on every other GPU that its workload ran on."""
    found: list[Prediction] = []
    for dataset, mine in _grouped(rows, lambda one: one.dataset).items():
        by_workload = _grouped(mine, lambda one: one.workload)
        for is_training in (True, False):
            named = {name: all_ for name, all_ in by_workload.items() if all_[0].is_training is is_training}
            peers = {
                name: OtherWorkload(
                    measurements=[_measurement(one) for one in all_], tensor_count=all_[0].tensor_count
                )
                for name, all_ in named.items()
            }
            cross_workload = cross_workload_ratios(peers, gpus, is_training=is_training) if has_peers else {}
            for name, all_ in named.items():
                for known in _grouped(all_, lambda one: one.gpu).values():
                    found.extend(_from_one_gpu(name, known, all_, gpus, cross_workload))
        assert dataset
    return found


def _from_one_gpu(
    name: str,
    known: list[Recording],
    all_: list[Recording],
    gpus: Mapping[str, Gpu],
    cross_workload: Mapping[tuple[str, str], CrossWorkloadRatios],
) -> list[Prediction]:
    source = {one.key: one for one in known}
    estimator = fit(
        [_measurement(one) for one in known],
        gpus=gpus,
        cross_workload=cross_workload,
        name=name,
        is_training=known[0].is_training,
        tensor_count=known[0].tensor_count,
    )
    found = []
    for target in all_:
        before = source.get(target.key)
        if target.gpu == known[0].gpu or before is None:
            continue
        hardware = Hardware(gpu=gpus[target.gpu], link=gpus[target.gpu].link)
        config = config_of(target.gpu, target.precision, target.batch)
        estimate = estimator.step_time_s(config, hardware)
        assert estimate is not None
        row = row_of(target.workload, target.step_s, estimate)
        host_fraction = estimator.host_fraction(config, hardware)
        assert host_fraction is not None
        found.append(Prediction(source=before, target=target, row=row, host_fraction=host_fraction))
    return found


def _measurement(one: Recording) -> Measurement:
    return measurement_of(config_of(one.gpu, one.precision, one.batch), one.step_s)


def _grouped(rows: Iterable[Item], key: Callable[[Item], str]) -> dict[str, list[Item]]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for one in rows:
        groups[key(one)].append(one)
    return groups


def baselines(found: list[Prediction], gpus: Mapping[str, Gpu]) -> dict[str, list[Row]]:
    """The same rows by ratios of peak figures, and by the median ratio of other workloads."""
    ratios: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        pair = (one.target.dataset, one.source.gpu, one.target.gpu)
        ratios[pair][one.target.workload].append(one.target.step_s / one.source.step_s)
    rows: dict[str, list[Row]] = defaultdict(list)
    for one in found:
        before, after = gpus[one.source.gpu], gpus[one.target.gpu]
        compute = (peak_flop_per_s(before, one.source.precision) or 1.0) / (
            peak_flop_per_s(after, one.source.precision) or 1.0
        )
        memory = before.bandwidth_bytes_per_s / after.bandwidth_bytes_per_s
        guesses = {"peak": compute, "bandwidth": memory, "geometric mean": math.sqrt(compute * memory)}
        pair = ratios[one.target.dataset, one.source.gpu, one.target.gpu]
        others = [ratio for name, all_ in pair.items() if name != one.target.workload for ratio in all_]
        guesses["median ratio"] = median(others) if others else guesses["geometric mean"]
        for name, ratio in guesses.items():
            rows[name].append(
                Row(group=one.row.group, measured=one.row.measured, predicted=one.source.step_s * ratio)
            )
    return rows


def report(title: str, found: list[Prediction], others: Mapping[str, list[Row]]) -> None:
    """One line per data set, then the means over data sets; MAPE is the median's, beside it the mean's."""
    names = list(others)
    print(
        f"\n{title}\n{'data set':14s} {'rows':>5s} {'MAPE':>7s} {'mean':>6s} {'worst':>6s} {'>2.5x':>6s} ",
        *names,
        sep="  ",
    )
    means: dict[str, list[float]] = defaultdict(list)
    for dataset in sorted({one.target.dataset for one in found}):
        chosen = [index for index, one in enumerate(found) if one.target.dataset == dataset]
        rows = [found[index].row for index in chosen]
        errors = {name: mape([others[name][index] for index in chosen]) for name in names}
        beyond = sum(abs(row.log_error) > math.log(2.5) for row in rows)
        cells = "  ".join(f"{errors[name]:{len(name)}.1%}" for name in names)
        print(
            f"{dataset:14s} {len(rows):5d} {mape(rows):7.1%} {mape_expected(rows):6.1%}"
            f" {worst_factor(rows):5.1f}x {beyond:6d}   {cells}"
        )
        if len({row.group for row in rows}) > 1:
            print(f"{'':14s} {leave_one_group_out(rows).line()}")
        for label in ("all", "licensed") if dataset not in UNLICENSED else ("all",):
            means[label].append(mape(rows))
            means[f"{label} expected"].append(mape_expected(rows))
            for name in names:
                means[f"{label} {name}"].append(errors[name])
    for label in ("licensed", "all"):
        if label not in means:
            continue
        cells = "  ".join(f"{mean(means[f'{label} {name}']):{len(name)}.1%}" for name in names)
        errors = f"{mean(means[label]):7.1%} {mean(means[f'{label} expected']):6.1%}"
        print(f"{'mean, ' + label:14s} {'':5s} {errors} {'':6s} {'':6s}   {cells}")


def report_beyond(found: list[Prediction]) -> None:
    """By class, how many rows there are, how large their error is, and how many are off by more than 2.5x."""
    print(f"\n{'class':66s} {'rows':>5s} {'MAPE':>7s} {'>2.5x':>6s}  of which")
    for name, mine in sorted(_grouped(found, lambda one: one.beyond_class).items()):
        beyond = [one for one in mine if abs(one.row.log_error) > math.log(2.5)]
        counts = Counter(one.target.dataset for one in beyond)
        which = ", ".join(f"{dataset} {count}" for dataset, count in counts.most_common())
        print(f"{name:66s} {len(mine):5d} {mape([one.row for one in mine]):7.1%} {len(beyond):6d}  {which}")


def main() -> None:
    """Both tables."""
    data = data_directory(__doc__)
    gpus = chips()
    rows = recordings(data)
    for has_peers in (False, True):
        found = predictions(rows, gpus, has_peers=has_peers)
        for stratum in ("gpu-bound", "host-bound"):
            mine = [one for one in found if one.target.stratum == stratum]
            given = "other workloads known on both GPUs" if has_peers else "chips' figures only"
            report(f"{given}, {stratum}", mine, baselines(mine, gpus))
        report_beyond(found)


if __name__ == "__main__":
    main()
