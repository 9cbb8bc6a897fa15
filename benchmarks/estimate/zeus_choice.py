"""Which GPU and batch size to rent when one GPU type was measured: the extra cost of the choice.

Data: zeus/cost_to_target.csv, 177 configurations (GPU and batch size) of six tasks with the epochs to the
target. For each task, each GPU type as the measured one and each of 200 price vectors (every GPU's price
drawn log-uniformly from 0.40 to 3.20 $/h, seed 0): every batch size is known on the measured GPU, the time
per epoch on the other GPUs is predicted from the chips' figures, the configuration of the lowest cost is
taken, and its true cost is compared with the true best. Twice: by the expected cost, which is the mean, as
plans are ranked, and by the median, since an unsure prediction costs more on average than its median.

    python benchmarks/estimate/zeus_choice.py [DATA]

Baseline: the geometric mean of the ratios of peak FLOP/s and bandwidth in place of the estimator, 8.7%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean

import numpy as np
import pandas as pd

from benchmarks.estimate.recorded import chips, config_of, measurement_of
from benchmarks.estimate.scores import data_directory, median_of
from benchmarks.estimate.single_gpu_times import SAMPLES_PER_EPOCH
from catalogs.gpus import Gpu
from planner.estimate import Estimate, Hardware, fit
from planner.estimate.time.chips import peak_flop_per_s
from trials.trial import Precision

NAMES = {
    "a40": "A40-48GB",
    "p100": "P100-PCIE-16GB",
    "rtx6000": "QUADRO-RTX-6000-24GB",
    "v100": "V100-PCIE-32GB",
}
PRICE_VECTORS = 200
PRECISION = Precision.TF32  # PyTorch of 2021: TF32 by default where the chip has it

Times = dict[tuple[str, int], float]  # GPU, batch -> seconds per epoch
Predict = Callable[[Times, str, Mapping[str, Gpu], int], Times]


def tasks(data: Path) -> dict[str, pd.DataFrame]:
    """Configurations by task."""
    table = pd.read_csv(data / "zeus" / "cost_to_target.csv")
    table["gpu"] = table["gpu"].map(NAMES)
    groups = table.groupby(["dataset", "network"])
    return {f"{dataset}/{network}": rows for (dataset, network), rows in groups}


def by_mean(times: Times, source: str, gpus: Mapping[str, Gpu], samples: int) -> Times:
    """Every configuration from those of ``source``: expected seconds per epoch."""
    return {
        one: found.expected * samples / one[1]
        for one, found in _estimates(times, source, gpus, samples).items()
    }


def by_median(times: Times, source: str, gpus: Mapping[str, Gpu], samples: int) -> Times:
    """The same as likely to be exceeded as not."""
    return {
        one: median_of(found) * samples / one[1]
        for one, found in _estimates(times, source, gpus, samples).items()
    }


def _estimates(
    times: Times, source: str, gpus: Mapping[str, Gpu], samples: int
) -> dict[tuple[str, int], Estimate]:
    known = {batch: seconds for (gpu, batch), seconds in times.items() if gpu == source}
    estimator = fit(
        [
            measurement_of(config_of(source, PRECISION, batch), seconds * batch / samples)
            for batch, seconds in known.items()
        ],
        gpus=gpus,
    )
    found: dict[tuple[str, int], Estimate] = {}
    for gpu, batch in times:
        hardware = Hardware(gpu=gpus[gpu], link=gpus[gpu].link)
        estimate = estimator.step_time_s(config_of(gpu, PRECISION, batch), hardware)
        assert estimate is not None
        found[gpu, batch] = estimate
    return found


def by_geometric_mean(times: Times, source: str, gpus: Mapping[str, Gpu], samples: int) -> Times:
    """The baseline; a batch size that the source lacks takes the nearest one's time per epoch."""
    assert samples > 0
    known = {batch: seconds for (gpu, batch), seconds in times.items() if gpu == source}
    found: Times = {}
    for gpu, batch in times:
        before, after = gpus[source], gpus[gpu]
        nearest = min(known, key=lambda one: abs(math.log(one / batch)))
        compute = (peak_flop_per_s(before, Precision.FP32) or 1.0) / (
            peak_flop_per_s(after, Precision.FP32) or 1.0
        )
        memory = before.bandwidth_bytes_per_s / after.bandwidth_bytes_per_s
        found[gpu, batch] = known[nearest] * math.sqrt(compute * memory)
    return found


def regrets(data: Path, predict: Predict) -> dict[tuple[str, str], list[float]]:
    """By task and measured GPU, one per price vector."""
    gpus = chips()
    draws = np.random.default_rng(0).uniform(math.log(0.4), math.log(3.2), size=(PRICE_VECTORS, len(NAMES)))
    prices = [dict(zip(NAMES.values(), np.exp(one).tolist(), strict=True)) for one in draws]
    found = {}
    for task, rows in tasks(data).items():
        records = rows.to_dict("records")
        times = {(str(one["gpu"]), int(one["batch_size"])): float(one["time_per_epoch_s"]) for one in records}
        epochs = {int(one["batch_size"]): float(one["epochs"]) for one in records}
        for source in sorted({gpu for gpu, _ in times}):
            guessed = predict(times, source, gpus, SAMPLES_PER_EPOCH[task])
            mine = []
            for price in prices:
                costs = {one: price[one[0]] * seconds * epochs[one[1]] for one, seconds in times.items()}
                chosen = min(times, key=lambda one: price[one[0]] * guessed[one] * epochs[one[1]])
                mine.append(costs[chosen] / min(costs.values()) - 1.0)
            found[task, source] = mine
    return found


def main() -> None:
    """Mean regret by task and measured GPU, against the baseline."""
    data = data_directory(__doc__)
    names = {"mean": by_mean, "median": by_median, "geometric mean": by_geometric_mean}
    found = {name: regrets(data, predict) for name, predict in names.items()}
    for task, source in found["mean"]:
        cells = "".join(f"   {name} {mean(mine[task, source]):6.1%}" for name, mine in found.items())
        print(f"{task:32s} measured on {source:20s}{cells}")
    print()
    for name, mine in found.items():
        all_ = [one for regret in mine.values() for one in regret]
        above = mean(one > 0.2 for one in all_)
        print(f"by {name}: mean regret {mean(all_):.1%}; above 20%: {above:.1%} of the choices")


if __name__ == "__main__":
    main()
