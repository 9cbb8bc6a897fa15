"""ResNet-50's training step from its trace, against what NVIDIA publishes and against two recordings.

The shares that convolutions reach of a matrix product's rate, on lanes and on units, are such that NVIDIA's
four figures are met in the mean (`fit_reference.py`). No row of the recordings was used for that.

Data: transfer/single_gpu_times.csv, imagenet/resnet50 of zeus (batches of 8 to 512, four GPUs) and resnet50
of ryujaehun in fp32 (batch 12, six GPUs). The trace is of the same network (`models.py`) at two batch sizes.
Chips with TF32 units are listed apart: both recordings left PyTorch's default, which lets cuDNN use them.

    python benchmarks/estimate/convnets.py [DATA]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.estimate.models import Bottleneck, image_case, resnet
from benchmarks.estimate.neusight import known_of
from benchmarks.estimate.recorded import chips, config_of, measurement_of
from benchmarks.estimate.scores import Row, data_directory, mape, median_of, row_of, worst_factor
from benchmarks.estimate.single_gpu_times import Recording, recordings
from benchmarks.estimate.trace_models import timed_trace
from catalogs.gpus import Gpu
from planner.estimate import Estimator, Hardware, fit
from trials.profile import WorkloadProfile
from trials.trial import Precision

TRACED_AT = (12, 96)  # samples
PUBLISHED = (  # NVIDIA/DeepLearningExamples, ResNet-50 v1.5, one GPU: images per second
    ("V100-SXM2-16GB", Precision.FP32, 380.0),  # PyTorch 19.10
    ("V100-SXM2-16GB", Precision.FP16, 893.0),
    ("A100-SXM4-80GB", Precision.TF32, 993.0),  # PaddlePaddle
    ("A100-SXM4-80GB", Precision.FP16, 2711.0),
)
PUBLISHED_BATCH = 256
WORKLOADS = ("imagenet/resnet50 train", "resnet50 train")

Found = tuple[Recording, Row]


def resnet50() -> WorkloadProfile:
    """What `planner check` would know of it."""
    case = image_case("ResNet-50", lambda: resnet(Bottleneck, (3, 4, 6, 3)), 224)
    return known_of([timed_trace(case, size, Precision.FP32, is_checkpointed=False)[0] for size in TRACED_AT])


def recorded(data: Path) -> dict[str, list[Recording]]:
    """Rows by data set; fp32, on TF32 units where the chip has them."""
    rows = [one for one in recordings(data) if one.workload in WORKLOADS and one.precision == Precision.TF32]
    return {name: [one for one in rows if one.dataset == name] for name in ("zeus", "ryujaehun")}


def from_trace(rows: Sequence[Recording], profile: WorkloadProfile, gpus: Mapping[str, Gpu]) -> list[Found]:
    """Every row, nothing measured."""
    estimator = fit([], gpus=gpus, profile=profile)
    return [(one, _row(one, estimator, gpus)) for one in rows]


def from_one_gpu(
    rows: Sequence[Recording], profile: WorkloadProfile | None, gpus: Mapping[str, Gpu]
) -> list[Found]:
    """Every row from every other GPU, with the trace or by the chips' figures alone."""
    found = []
    for source in dict.fromkeys(one.gpu for one in rows):
        known = {one.batch: one for one in rows if one.gpu == source}
        trials = [
            measurement_of(config_of(source, one.precision, one.batch), one.step_s) for one in known.values()
        ]
        estimator = fit(trials, gpus=gpus, profile=profile)
        found += [
            (one, _row(one, estimator, gpus)) for one in rows if one.gpu != source and one.batch in known
        ]
    return found


def _row(one: Recording, estimator: Estimator, gpus: Mapping[str, Gpu]) -> Row:
    gpu = gpus[one.gpu]
    config = config_of(one.gpu, one.precision, one.batch)
    estimate = estimator.step_time_s(config, Hardware(gpu=gpu, link=gpu.link))
    assert estimate is not None
    return row_of(one.workload, one.step_s, estimate)


def report(title: str, found: Sequence[Found], gpus: Mapping[str, Gpu]) -> None:
    """One line for chips without TF32 units, one for those with them."""
    for label, has_units in (("without TF32 units", False), ("with TF32 units", True)):
        rows = [row for one, row in found if (gpus[one.gpu].tf32_flop_per_s is not None) is has_units]
        bias = sum(row.error_fraction for row in rows) / len(rows)
        inside = sum(-row.below <= row.log_error <= row.above for row in rows)
        print(
            f"{title:38s} {label:18s} {len(rows):3d} rows {mape(rows):6.1%} (mean {bias:+6.1%}),"
            f" worst {worst_factor(rows):.2f}x, in the shipped 90% interval {inside}"
        )


def published(profile: WorkloadProfile, gpus: Mapping[str, Gpu]) -> None:
    """NVIDIA's figures and the trace's."""
    estimator = fit([], gpus=gpus, profile=profile)
    for name, precision, per_s in PUBLISHED:
        gpu = gpus[name]
        estimate = estimator.step_time_s(
            config_of(name, precision, PUBLISHED_BATCH), Hardware(gpu=gpu, link=gpu.link)
        )
        assert estimate is not None
        traced_per_s = PUBLISHED_BATCH / median_of(estimate)
        print(f"{name} {precision.value}: NVIDIA {per_s:.0f} img/s, from the trace alone {traced_per_s:.0f}")


def main() -> None:
    """Each data set: from the trace alone, from one GPU with the trace, from one GPU without."""
    data, gpus = data_directory(__doc__), chips()
    profile = resnet50()
    published(profile, gpus)
    for name, rows in recorded(data).items():
        report(f"{name}, trace alone", from_trace(rows, profile, gpus), gpus)
        report(f"{name}, one GPU and the trace", from_one_gpu(rows, profile, gpus), gpus)
        report(f"{name}, one GPU, chips' figures", from_one_gpu(rows, None, gpus), gpus)


if __name__ == "__main__":
    main()
