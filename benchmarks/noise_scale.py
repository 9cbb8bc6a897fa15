"""Does the gradient noise scale rank global batch sizes by what it costs to reach a loss?

    python -m benchmarks.noise_scale

A small network learns handwritten digits (scikit-learn's, 1,797 images) by SGD to a fixed loss at four batch
sizes. The learning rate of each is the best of a grid on some seeds; the samples it needs are counted on
other seeds. The noise scale is measured as a trial measures it, at weights from several moments of the
reference batch's training. Predicted and actual cost share the step time, so what is compared is the number
of samples: with the step times of this machine, and with steps that cost a fixed part and a part per sample,
from a device that is full at 4 samples to one that is full at 4,096. Half a minute on one core.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, takewhile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from planner.estimate.noise_scale import NoiseScale, learning_rate_factor, noise_scale, samples_factor
from trials.extras import Extras
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings, measure
from trials.model_file.source import hash_workload
from trials.rank_context import RankContext
from trials.trial import Parallelism, Precision, TrialConfig

BATCH_SIZES = (16, 64, 256, 1024)
REFERENCE = BATCH_SIZES[0]
LEARNING_RATES = tuple(0.8 * 2 ** (power / 2) for power in (0, 1, -1, 2, -2, 3, -3, -4, -5, -6))  # 0.1 to 2.3
TUNING_SEEDS = (0, 1, 2)
COUNTING_SEEDS = (3, 4, 5, 6, 7, 8, 9)
GOAL = 0.15  # loss over all images
SAMPLES_MAX = 200_000
MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the samples of the reference's training, at which N is measured
HALF_WAY = 0.5
FULL_AT = (4, 16, 64, 256, 1024, 4096)  # samples whose part of a step is as long as the fixed part
MODEL = """
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
def model(): return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))
def dataset():
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    return torch.utils.data.TensorDataset(images, torch.tensor(digits.target))
def loss(model, batch): return functional.cross_entropy(model(batch[0]), batch[1])
def optimizer(parameters): return torch.optim.SGD(parameters, lr=1e-9)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What a batch size needed for the goal."""

    rate: float
    samples: tuple[int, ...]  # by seed

    @property
    def median(self) -> float:
        """Of the seeds."""
        return statistics.median(self.samples)


def data() -> tuple[Tensor, Tensor]:
    """Images and labels."""
    digits = load_digits()
    return torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)


def network() -> nn.Module:
    """9,610 parameters."""
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))


def train(
    batch_size: int, rate: float, seed: int, goal: float = GOAL, samples_max: float = SAMPLES_MAX
) -> tuple[int | None, nn.Module]:
    """Samples until the loss is ``goal`` (None: it was not within ``samples_max``), and the model then."""
    torch.manual_seed(seed)
    images, labels = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    steps_between_looks = max(1, 256 // batch_size)
    for step in range(1, int(samples_max) // batch_size + 1):
        chosen = torch.randint(len(images), (batch_size,))
        functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % steps_between_looks == 0:
            with torch.no_grad():
                loss = float(functional.cross_entropy(model(images), labels))
            if not math.isfinite(loss):
                return None, model
            if loss <= goal:
                return step * batch_size, model
    return None, model


def needed(batch_size: int) -> Needed:
    """Samples to the goal at the learning rate that is best on seeds that are not counted."""
    found: list[tuple[float, float]] = []
    for rate in LEARNING_RATES:
        most = 2.0 * min(found)[0] if found else SAMPLES_MAX
        tried = list(
            takewhile(bool, (train(batch_size, rate, seed, samples_max=most)[0] for seed in TUNING_SEEDS))
        )
        if len(tried) == len(TUNING_SEEDS):
            found.append((statistics.median(one or most for one in tried), rate))
    rate = min(found)[1]
    counted = [train(batch_size, rate, seed)[0] for seed in COUNTING_SEEDS]
    return Needed(rate=rate, samples=tuple(one if one is not None else SAMPLES_MAX for one in counted))


def measured_scale(rate: float, samples: float) -> NoiseScale:
    """By a trial, at the weights that the reference batch has after so many samples."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.pt"
        torch.save({"model": train(REFERENCE, rate, 0, 0.0, samples)[1].state_dict()}, path)
        file = Path(folder) / "model.py"
        file.write_text(MODEL)
        config = TrialConfig(
            gpu="CPU", gpu_count=1, micro_batch_size=REFERENCE, accumulation=1,
            precision=Precision.FP32, parallelism=Parallelism.SINGLE,
        )  # fmt: skip
        outcome = measure(
            hash_workload(file),
            config,
            RankContext(threads=1),
            MeasureSettings(timed_max=10),
            Extras(is_noise_measured=True, noise_checkpoint=str(path)),
        )
    assert isinstance(outcome, Measurement), outcome
    assert outcome.noise is not None, outcome.warnings
    scale = noise_scale(outcome.noise)
    assert scale is not None, "the gradient is lost in noise"
    return scale


def step_s(batch_size: int, repeats: int = 300) -> float:
    """Median time of a step on this machine."""
    images, labels = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    times = []
    for _ in range(repeats):
        begun_s = time.perf_counter()
        chosen = torch.randint(len(images), (batch_size,))
        functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begun_s)
    return statistics.median(times)


def print_samples(actual: Mapping[int, Needed], scales: Mapping[str, float]) -> None:
    """What each size needed, and what was predicted from each scale."""
    reference = actual[REFERENCE]
    print("\n| batch | best rate (predicted) | samples to the loss (range of seeds) | relative |", end="")
    print("".join(f" {name} |" for name in scales))
    print("|---" * (4 + len(scales)) + "|")
    half = scales["half way"]
    for size, one in actual.items():
        rate = reference.rate * learning_rate_factor(half, size, REFERENCE)
        low, high = min(one.samples), max(one.samples)
        print(
            f"| {size} | {one.rate:.2g} ({rate:.2g}) | {one.median:,.0f} ({low:,} to {high:,}) "
            f"| {one.median / reference.median:.2f} |",
            end="",
        )
        print("".join(f" {samples_factor(scale, size, REFERENCE):.2f} |" for scale in scales.values()))


def print_ranking(
    actual: Mapping[int, Needed], scales: Mapping[str, float], times: Mapping[str, Mapping[int, float]]
) -> None:
    """For each model of the step time: the size that is really cheapest, and what each scale makes of it."""
    print("\n| a step's time | cheapest |", end="")
    print("".join(f" {name}: pairs right, chosen (dearer by) |" for name in scales))
    print("|---" * (2 + len(scales)) + "|")
    right = dict.fromkeys(scales, 0)
    pairs = list(combinations(BATCH_SIZES, 2))
    for name, time_s in times.items():
        costs = {size: actual[size].median / size * time_s[size] for size in BATCH_SIZES}
        print(f"| {name} | {min(costs, key=lambda size: costs[size])} |", end="")
        for which, scale in scales.items():
            guesses = {
                size: samples_factor(scale, size, REFERENCE) / size * time_s[size] for size in BATCH_SIZES
            }
            hits = sum((costs[a] < costs[b]) == (guesses[a] < guesses[b]) for a, b in pairs)
            right[which] += hits
            pick = min(guesses, key=lambda size: guesses[size])
            print(f" {hits} of {len(pairs)}, {pick} ({costs[pick] / min(costs.values()) - 1:.0%}) |", end="")
        print()
    total = len(pairs) * len(times)
    print("\n" + "; ".join(f"{which}: {hits} of {total} pairs right" for which, hits in right.items()))


def main() -> None:
    """Print the tables."""
    torch.set_num_threads(1)
    actual = {size: needed(size) for size in BATCH_SIZES}
    reference = actual[REFERENCE]
    at = {moment: measured_scale(reference.rate, moment * reference.median) for moment in MOMENTS}
    print("| moment of the training | noise scale, samples | 90% | draws |\n|---|---|---|---|")
    for moment, scale in at.items():
        high = "none" if scale.high is None else f"{scale.high:.0f}"
        print(f"| {moment:.0%} | {scale.expected:.0f} | {scale.low:.0f} to {high} | {scale.draw_count} |")
    scales = {
        "at the start": at[MOMENTS[0]].expected,
        "half way": at[HALF_WAY].expected,
        "mean of the moments": statistics.fmean(one.expected for one in at.values()),
    }
    print_samples(actual, scales)
    here = {size: step_s(size) for size in BATCH_SIZES}
    shown = ", ".join(f"{size}: {took_s * 1e6:.0f} us" for size, took_s in here.items())
    times = {f"this machine ({shown})": here}
    times |= {f"1 + B / {full}": {size: 1 + size / full for size in BATCH_SIZES} for full in FULL_AT}
    print_ranking(actual, scales, times)


if __name__ == "__main__":
    main()
