"""MPT models of 125 M to 70 B parameters under FSDP in bf16: measured on A100-80, predicted on H100.

Data: llm_foundry/mpt_training_benchmarks.csv. For each model, sequence length and GPU count that both were
measured at: the estimator gets the A100's step time and the model's trace (from its configuration), and is
asked for the H100 at its own micro batch size. Nothing measured on an H100 enters.

    python benchmarks/estimate/llm_foundry_h100.py [DATA]

Baselines: constant MFU 47.9%, geometric mean of the ratios of peak FLOP/s and bandwidth 9.7%.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean

import pandas as pd

from benchmarks.estimate.mpt import MODELS, mpt_trace
from benchmarks.estimate.recorded import measurement_of, profile_of
from benchmarks.estimate.scores import Row, data_directory, leave_one_group_out, row_of, summary
from catalogs.gpus import Gpu, Link, load_gpus
from planner.estimate import Hardware, fit
from trials.profile import WorkloadProfile
from trials.trial import Parallelism, Precision, TrialConfig

SOURCE, TARGET = ("a100_80gb", "A100-SXM4-80GB"), ("h100_80gb", "H100-SXM5-80GB")
KEYS = ["Model", "SeqLen (T)", "# GPUs"]
GPUS_PER_NODE = 8
NAMES = {"a100_40gb": "A100-SXM4-40GB", "a100_80gb": SOURCE[1], "h100_80gb": TARGET[1]}


def pairs(data: Path) -> pd.DataFrame:
    """Rows of both GPUs side by side, suffixes _a and _h."""
    table = pd.read_csv(data / "llm_foundry" / "mpt_training_benchmarks.csv")
    table = table[(table.Precision != "amp_fp8") & (table["Sharding Strategy"] == "FULL_SHARD")]
    before, after = (table[name == table.GPU] for name, _ in (SOURCE, TARGET))
    return before.merge(after, on=KEYS, suffixes=("_a", "_h"))


def config_of(row: dict[str, object], suffix: str, gpu: str) -> TrialConfig:
    """The run as a configuration of the product."""
    count = int(str(row["# GPUs"]))
    return TrialConfig(
        gpu=gpu,
        gpu_count=count,
        node_count=max(1, count // GPUS_PER_NODE),
        micro_batch_size=int(str(row[f"MicroBatchSize{suffix}"])),
        accumulation=int(str(row[f"GradAccum{suffix}"])),
        precision=Precision.BF16,
        parallelism=Parallelism.FSDP2,
        techniques=("activation_checkpointing",) if row[f"Activation Checkpointing{suffix}"] else (),
    )


def step_s(row: dict[str, object], suffix: str, config: TrialConfig) -> float:
    """Seconds per step from tokens per second."""
    samples_per_s = float(str(row[f"Throughput (T/s/GPU){suffix}"])) * config.gpu_count / sequence_of(row)
    return config.global_batch_size / samples_per_s


def sequence_of(row: dict[str, object]) -> int:
    """Tokens per sample."""
    return int(str(row["SeqLen (T)"]))


def known_of(row: dict[str, object], configs: list[TrialConfig]) -> WorkloadProfile:
    """What `planner check` would know: the size, and the traces of the micro batches at hand."""
    model, length = MODELS[str(row["Model"])], sequence_of(row)
    traced = sorted(
        {(one.micro_batch_size, ("activation_checkpointing" in one.techniques)) for one in configs}
    )
    return profile_of(
        model.parameter_count,
        [mpt_trace(model, length, size, is_checkpointed=checkpointed) for size, checkpointed in traced],
        block_count=model.depth,
        tokens_per_sample=length,
    )


def predicted(row: dict[str, object], gpus: dict[str, Gpu]) -> tuple[str, Row, float]:
    """Label, the row to be scored, and the geometric-mean baseline's error."""
    before, after = config_of(row, "_a", SOURCE[1]), config_of(row, "_h", TARGET[1])
    known_s, true_s = step_s(row, "_a", before), step_s(row, "_h", after)
    estimator = fit([measurement_of(before, known_s)], gpus=gpus, profile=known_of(row, [before, after]))
    gpu = gpus[TARGET[1]]
    estimate = estimator.step_time_s(after, Hardware(gpu=gpu, link=Link.NVLINK, network_bytes_per_s=200e9))
    assert estimate is not None
    old = gpus[SOURCE[1]]
    compute = (old.bf16_flop_per_s or 1.0) / (gpu.bf16_flop_per_s or 1.0)
    guess = math.sqrt(compute * old.bandwidth_bytes_per_s / gpu.bandwidth_bytes_per_s)
    guess_s = known_s * guess * after.global_batch_size / before.global_batch_size
    scored = row_of(str(row["Model"]), true_s, estimate)
    return f"{row['Model']}-s{row['SeqLen (T)']}-n{row['# GPUs']}", scored, abs(guess_s / true_s - 1.0)


def from_trace(data: Path, gpus: dict[str, Gpu]) -> list[Row]:
    """Every row of the file that fits one node, from the trace alone, on whatever GPU."""
    table = pd.read_csv(data / "llm_foundry" / "mpt_training_benchmarks.csv")
    table = table[(table.Precision != "amp_fp8") & (table["# GPUs"] == GPUS_PER_NODE)]
    rows = []
    for row in table.to_dict("records"):
        config = config_of(row, "", NAMES[str(row["GPU"])])
        estimator = fit([], gpus=gpus, profile=known_of(row, [config]))
        estimate = estimator.step_time_s(config, Hardware(gpu=gpus[config.gpu], link=Link.NVLINK))
        assert estimate is not None
        rows.append(row_of(str(row["Model"]), step_s(row, "", config), estimate))
    return rows


def main() -> None:
    """One line per pair, then the score."""
    gpus, data = load_gpus(), data_directory(__doc__)
    found = [predicted(row, gpus) for row in pairs(data).to_dict("records")]
    for label, row, guess in found:
        print(
            f"{label:16s} measured {row.measured:8.2f} s, predicted {row.predicted:8.2f} s,"
            f" error {row.error_fraction:+6.1%}, geometric mean {guess:5.1%}"
        )
    rows = [row for _, row, _ in found]
    print(f"\n{summary(rows)}; geometric mean {mean(guess for *_, guess in found):.1%}")
    print(leave_one_group_out(rows).line())
    alone = from_trace(data, gpus)
    print(f"\nfrom the trace alone, one node, {summary(alone)}")
    print(leave_one_group_out(alone).line())


if __name__ == "__main__":
    main()
