"""How long estimates take, each configuration asked once, for every chip and count of the catalog.

The workload is examples/gpt.py as `planner check` traces it, taken as measured on one A100 at three micro
batches in two precisions. Asked for: step time, throughput and peak memory of every admissible configuration
on every distinct hardware of the shipped offers (chip, count, link, network).

    python benchmarks/estimate/speed.py

Seconds are the process's CPU time. Aim: under 1 ms for an estimate once fitted, under 1 s for the whole
catalog (one configuration on each).
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import mean, median

from benchmarks.estimate.recorded import config_of, measurement_of
from catalogs.gpus import Gpu, load_gpus
from catalogs.offers import load_offers
from planner.estimate import Estimator, Hardware, fit
from planner.plans.plan import hardware_of
from planner.plans.space import configs_for
from planner.target import TargetFlags, resolve_target
from trials.check import check
from trials.measurement import Measurement
from trials.model_file.source import hash_workload
from trials.profile import WorkloadProfile
from trials.trial import Precision, TrialConfig

MODEL = Path(__file__).resolve().parents[2] / "examples" / "gpt.py"
SOURCE = "A100-SXM4-80GB"
Asked = tuple[TrialConfig, Hardware]


def measured(profile: WorkloadProfile, gpus: dict[str, Gpu]) -> list[Measurement]:
    """Six trials on one GPU, as long as the trace says."""
    traced = fit([], gpus=gpus, profile=profile)
    hardware, found = Hardware(gpu=gpus[SOURCE], link=gpus[SOURCE].link), []
    for precision in (Precision.FP32, Precision.BF16):
        for size in (4, 16, 64):
            config = config_of(SOURCE, precision, size)
            estimate = traced.step_time_s(config, hardware)
            assert estimate is not None
            found.append(measurement_of(config, estimate.expected))
    return found


def questions(profile: WorkloadProfile, gpus: dict[str, Gpu]) -> list[list[Asked]]:
    """Every admissible configuration on every kind of hardware and count on offer, the plainest first."""
    target = resolve_target(TargetFlags(samples=100_000, global_batch_size=64), profile, str(MODEL))
    kinds = dict.fromkeys((hardware_of(one, gpus[one.gpu], 1), one.gpu_count) for one in load_offers())
    found = []
    for hardware, count in kinds:
        configs = configs_for(target, hardware.gpu, count, 1, profile)
        found.append([(config, hardware) for config in configs])
    return [asked for asked in found if asked]


def seconds_each(estimator: Estimator, asked: list[Asked]) -> list[float]:
    """Of step time, throughput and memory, question by question."""
    found = []
    for config, hardware in asked:
        start = time.process_time()
        estimator.step_time_s(config, hardware)
        estimator.throughput_per_s(config, hardware)
        estimator.peak_memory_bytes(config, hardware)
        found.append(time.process_time() - start)
    return found


def main() -> None:
    """Fitting, the whole catalog once, every configuration."""
    gpus = load_gpus()
    profile = check(hash_workload(MODEL))
    trials = measured(profile, gpus)
    kinds = questions(profile, gpus)
    plainest, every = [asked[0] for asked in kinds], [one for asked in kinds for one in asked]
    for label, asked in (("one configuration on each", plainest), ("every configuration", every)):
        start = time.process_time()
        estimator = fit(trials, gpus=gpus, profile=profile)
        fit_s = time.process_time() - start
        each = sorted(seconds_each(estimator, asked))
        print(
            f"{label}: {len(asked)} estimates on {len(kinds)} kinds of hardware; fit {fit_s * 1e3:.0f} ms,"
            f" then {sum(each):.2f} s; each {mean(each) * 1e3:.2f} ms on average, median"
            f" {median(each) * 1e3:.2f}, 99% below {each[int(0.99 * len(each))] * 1e3:.2f},"
            f" longest {each[-1] * 1e3:.1f}"
        )


if __name__ == "__main__":
    main()
