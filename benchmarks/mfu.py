"""The share of the chip's peak that training reached: our recordings beside public figures of such models.

    python -m benchmarks.mfu [RECORDING.json ...] [--data DATA]

Two tables. *Public*: nanoGPT's GPT-2 124M and, where DATA (or PLANNER_DATA) has them, llm-foundry's MPT
without activation checkpointing; each MFU is computed here from the published tokens per second by
the formula of PaLM, appendix B, over our catalog's peak, beside the MFU that the source states. *Recorded*:
the fastest trial of each recording by precision, from the trace's FLOPs as in the product's report.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.estimate.scores import default_data
from benchmarks.recording import Recording, load
from catalogs.gpus import Gpu, load_gpus
from planner.estimate.time.peak_fraction import micro_batch_flops, peak_fraction
from trials.measurement import Measurement
from trials.trial import Precision

FOLDER = Path(__file__).parent / "recordings"
_MPT = {"125m": (12, 768), "350m": (24, 1024), "760m": (24, 1536), "1b": (24, 2048)}  # layers, width
_GPUS = {
    "a100_40gb": "A100-SXM4-40GB",
    "a100_80gb": "A100-SXM4-80GB",
    "h100_80gb": "H100-SXM5-80GB",
}
_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A public figure of tokens per second and GPU."""

    source: str
    model: str
    gpu: str
    tokens_per_s: float
    parameters: float  # that multiply; llm-foundry counts all
    layers: int
    width: int
    sequence: int
    stated_fraction: float | None  # MFU as the source gives it


def transformer_flops_per_token(parameters: float, layers: int, width: int, sequence: int) -> float:
    """6 N + 12 L d T (Chowdhery et al., PaLM, 2022, appendix B), the whole score matrix, causal or not."""
    return 6 * parameters + 12 * layers * width * sequence


def fraction_of(one: Published, gpus: dict[str, Gpu]) -> float | None:
    """MFU in bf16."""
    peak = gpus[one.gpu].bf16_flop_per_s
    flops = transformer_flops_per_token(one.parameters, one.layers, one.width, one.sequence)
    return None if peak is None else one.tokens_per_s * flops / peak


def nano_gpt() -> Published:
    """GPT-2 124M in bf16, compiled, on 8 A100-40: README and config/train_gpt2.py of karpathy/nanoGPT.

    "About 4 days" for 600,000 steps of 491,520 tokens, so the figure is good to one digit.
    """
    return Published(
        source="nanoGPT, 8 GPUs",
        model="GPT-2 124M",
        gpu="A100-SXM4-40GB",
        tokens_per_s=600_000 * 491_520 / (4 * _DAY_S) / 8,
        parameters=12 * 12 * 768**2 + 50_304 * 768,
        layers=12,
        width=768,
        sequence=1024,
        stated_fraction=None,
    )


def llm_foundry(data: Path) -> Iterator[Published]:
    """MPT on 8 GPUs at 1,024 and 2,048 tokens; nothing where the table is absent."""
    path = data / "llm_foundry" / "mpt_training_benchmarks.csv"
    if not path.exists():
        return
    with path.open(encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            is_plain = row["Precision"] in {"bf16", "amp_bf16"} and row["Activation Checkpointing"] == "False"
            if row["Model"] not in _MPT or row["# GPUs"] != "8" or not is_plain:
                continue
            if row["SeqLen (T)"] not in {"1024", "2048"}:
                continue
            layers, width = _MPT[row["Model"]]
            yield Published(
                source="llm-foundry, 8 GPUs",
                model=f"MPT {row['Model']}",
                gpu=_GPUS[row["GPU"]],
                tokens_per_s=float(row["Throughput (T/s/GPU)"]),
                parameters=float(row["NumParams"]),
                layers=layers,
                width=width,
                sequence=int(row["SeqLen (T)"]),
                stated_fraction=float(row["MFU"]) / 100,
            )


def fastest(recording: Recording, precision: Precision) -> Measurement | None:
    """The trial of most samples per second in a precision."""
    found = [
        one
        for one in recording.outcomes
        if isinstance(one, Measurement) and one.config.precision == precision
    ]
    return max(found, key=lambda one: one.throughput_per_s, default=None)


def print_public(data: Path) -> None:
    """The table of public figures."""
    gpus = load_gpus()
    print(
        f"{'public':22} {'model':12} {'tokens':>6} {'GPU':16} {'tokens/s/GPU':>12} {'MFU':>7} {'stated':>7}"
    )
    for one in (nano_gpt(), *llm_foundry(data)):
        fraction = fraction_of(one, gpus)
        print(
            f"{one.source:22} {one.model:12} {one.sequence:6} {one.gpu:16} {one.tokens_per_s:12,.0f}"
            f" {_percent(fraction)} {_percent(one.stated_fraction)}"
        )


def print_recorded(paths: list[Path]) -> None:
    """The table of our recordings."""
    gpus = load_gpus()
    print(f"{'recorded':34} {'precision':9} {'micro batch':>11} {'samples/s':>10}", end="")
    print(f" {'GFLOP/sample':>12} {'MFU':>7}")
    for path in paths:
        recording = load(path)
        for precision in Precision:
            best = fastest(recording, precision)
            if best is None:
                continue
            traces, size = recording.profile.traces, best.config.micro_batch_size
            flops = micro_batch_flops(traces, size)
            per_sample = "-" if flops is None else f"{flops / size / 1e9:.3f}"
            knobs = " compiled" * ("compile" in best.config.techniques) + " checkpointed" * (
                "activation_checkpointing" in best.config.techniques
            )
            share = _percent(peak_fraction(best, traces, gpus))
            print(
                f"{recording.name:34} {precision:9} {size:11} {best.throughput_per_s:10,.1f} {per_sample:>12}"
                f" {share}{knobs}"
            )


def _percent(fraction: float | None) -> str:
    return f"{'-':>7}" if fraction is None else f"{fraction:7.1%}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, default=default_data())
    given = parser.parse_args()
    print_public(given.data)
    print()
    print_recorded(given.recordings or sorted(FOLDER.glob("*.json")))


if __name__ == "__main__":
    main()
