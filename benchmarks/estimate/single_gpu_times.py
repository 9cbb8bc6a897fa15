"""Step times of many models on single GPUs, as six studies recorded them: transfer/single_gpu_times.csv."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trials.trial import Precision

NAMES = {
    "P4": "P4-8GB",
    "P100": "P100-PCIE-16GB",
    "P100-PCIE": "P100-PCIE-16GB",
    "T4": "T4-16GB",
    "V100": "V100-SXM2-16GB",
    "V100-PCIE": "V100-PCIE-32GB",
    "TitanV": "TITAN-V",
    "1080Ti": "GTX-1080-TI",
    "TitanXP": "TITAN-XP",
    "2080Ti": "RTX-2080-TI-11GB",
    "TitanRTX": "TITAN-RTX-24GB",
    "RTX6000": "QUADRO-RTX-6000-24GB",
    "A40": "A40-48GB",
    "RTX3090": "RTX-3090-24GB",
    "RTX4090": "RTX-4090-24GB",
    "L4": "L4-24GB",
    "A100-40": "A100-SXM4-40GB",
    "A100-80P": "A100-PCIE-80GB",
    "A100-80S": "A100-SXM4-80GB",
    "H100-S": "H100-SXM5-80GB",
    "GH200-96": "GH200-96GB",
    "RTX2080": "RTX-2080-TI-11GB",  # Sailor's "RTX-2080" has 11 GB: the Ti
}
NAMES_BY_DATASET = {  # where the same label means another form factor
    ("neusight", "A100-40"): "A100-PCIE-40GB",  # NVIDIA_A100-PCIE-40GB in its own table
    ("zeus", "V100"): "V100-PCIE-32GB",  # power limits up to 250 W: the PCIe card
}
PRECISIONS = {
    "fp32": Precision.FP32,
    "fp16": Precision.FP16,
    "amp": Precision.FP16,
    "bf16": Precision.BF16,
    "unk": Precision.TF32,  # PyTorch of 2021: TF32 by default where the chip has it
}
DEFAULT_TF32 = ("ryujaehun",)  # fp32 rows of convnets: cuDNN uses TF32 unless told otherwise
SAMPLES_PER_EPOCH = {  # zeus records epochs; sizes of the data sets as published
    "cifar100/shufflenetv2": 50_000,
    "imagenet/resnet50": 1_281_167,
    "squad/bert_base_uncased": 88_524,
    "sentiment140/bert_base_uncased": 160_000,
    "librispeech/deepspeech2": 281_241,
    "movielens-1m/ncf": 4_970_845,
}
UNKNOWN_BATCH = 1024  # rows per item, of some large batch that nobody recorded
TENSOR_PARALLEL = re.compile(r"-tp(\d+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One row of the table."""

    dataset: str
    workload: str
    is_training: bool
    precision: Precision
    batch: int
    gpu: str
    stratum: str
    step_s: float

    @property
    def tensor_count(self) -> int:
        """Ranks that share each matrix, as Sailor's workloads are named."""
        found = TENSOR_PARALLEL.search(self.workload)
        return 1 if found is None else int(found[1])

    @property
    def key(self) -> tuple[str, Precision, int]:
        """What must agree for two recordings to be compared across GPUs."""
        return self.workload, self.precision, self.batch


def recordings(data: Path) -> list[Recording]:
    """The table, times as seconds per step."""
    table = pd.read_csv(data / "transfer" / "single_gpu_times.csv")
    return [_recording(one) for one in table.itertuples()]


def _recording(one: object) -> Recording:
    dataset, workload, batch = str(one.dataset), str(one.workload), int(one.batch)  # type: ignore[attr-defined]
    seconds = float(one.ms) / 1e3  # type: ignore[attr-defined]
    if dataset == "zeus":
        seconds *= batch / SAMPLES_PER_EPOCH[workload]
    if batch < 0:
        batch, seconds = UNKNOWN_BATCH, seconds * UNKNOWN_BATCH
    gpu, mode = str(one.gpu), str(one.mode)  # type: ignore[attr-defined]
    precision = PRECISIONS[str(one.precision)]  # type: ignore[attr-defined]
    if precision == Precision.FP32 and dataset in DEFAULT_TF32:
        precision = Precision.TF32
    return Recording(
        dataset=dataset,
        workload=f"{workload} {mode}",
        is_training=mode == "train",
        precision=precision,
        batch=batch,
        gpu=NAMES_BY_DATASET.get((dataset, gpu), NAMES[gpu]),
        stratum=str(one.stratum),  # type: ignore[attr-defined]
        step_s=seconds,
    )
