"""Writes planner/estimate/time/reference.json: which share of a chip's peak figures kernels reach.

Fitted here, to NeuSight's operator times in fp32 (neusight/operators: five chips, P4 to A100-40) and to
nothing else: the rate of large matrix products on each chip, the rate of elementwise kernels, the time to
fill and drain a tile. A chip whose products stay far below its peak in proportion to its power limit is
limited by power, which gives the energy of a FLOP.

Cited, each with its source below: what the fitted chips cannot tell (later architectures, matrix units).
Nothing comes from end-to-end times of models, and nothing from NeuSight's operators on L4, A100-80, H100.

    python benchmarks/estimate/fit_reference.py [DATA]          # prints the fits and writes the file
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.estimate.scores import data_directory
from catalogs.gpus import Gpu, load_gpus
from planner.estimate.time.chips import Chip, chip
from planner.estimate.time.operations import Vector, matmul_s
from planner.estimate.time.reference import parse_reference
from trials.trial import Precision

TARGET = Path(__file__).resolve().parents[2] / "planner" / "estimate" / "time" / "reference.json"
CHIPS = {
    "P4-8GB": "Tesla_P4",
    "P100-PCIE-16GB": "Tesla_P100-PCIE-16GB",
    "T4-16GB": "Tesla_T4",
    "V100-PCIE-32GB": "Tesla_V100-PCIE-32GB",
    "A100-PCIE-40GB": "NVIDIA_A100-PCIE-40GB",
}
LEAST_FLOPS = 3e9  # of a product that keeps a chip busy long enough to reach its power limit
POWER_LIMITED_BELOW = 0.6  # of peak: no tuned kernel library is that slow at full clock
ELEMENTWISE = {"tanh": 2, "relu": 2, "gelu": 2, "add": 3, "mul": 3}  # tensors read and written
ROWWISE = {"softmax": "softmax", "normalisation": "ln"}  # operation class -> operator file; two tensors
LEAST_STREAM_BYTES = 2e8

YEARS = {"Turing": 2018, "Ampere": 2020, "Ada Lovelace": 2022, "Hopper": 2022}
YEARS |= {"Blackwell": 2024, "Blackwell Ultra": 2025}
EFFICIENCY_DOUBLES_IN_YEARS = 3.0
CITED: dict[str, object] = {
    "lane_fraction": {
        "7.5": 0.85,
        "8.6": 0.6,
        "8.9": 0.72,
        "9.0": 0.77,
        "10.0": 0.77,
        "12.0": 0.72,
        "other": 0.75,
        "cpu": 0.6,
    },
    "unit_fraction": {
        "fp32": 1.0,
        "tf32": 0.7,
        "bf16": 0.8,
        "fp16": 0.8,
        "bf16 8.0": 0.86,
        "fp16 8.0": 0.86,
        "bf16 10.0": 0.776,
        "fp16 10.0": 0.776,
    },
    "unit_energy_fraction": {"tf32": 0.278, "bf16": 0.139, "fp16": 0.139},
    "stream_power_fraction": 0.6,
    "unit_tile_s": 3e-6,
    "product_fraction": {
        "convolution": 0.93,
        "convolution units": 0.4,
        "attention": 0.6,
        "attention 9.0": 0.4,
        "attention 10.0": 0.4,
    },
    "cached_fraction": 0.5,
    "kernel_s": 3e-6,
    "launch_s": 1e-5,
}
SOURCES = {
    "lane_fraction": (
        "fitted: 6.0, 6.1, 7.0, 8.0. 7.5: 2080 Ti 11.4 of 13.4 (bewantbe/busy-gemm-benchmark). Later "
        "chips have 128 fp32 lanes per SM that share issue slots and a boost clock that they do not hold: "
        "A6000 23.2 of 38.7 TFLOP/s (siboehm, SGEMM_CUDA), A40 18.9 and 3090 Ti 21 of 37.4 and 40 "
        "(bewantbe/busy-gemm-benchmark); RTX 4070 22.1 of 29.1 (cuBLAS at 4096); H100 NVL 45.5 of 60.3 "
        "and H200 NVL 47.3 of 60 (xzwgit/gpu-flops-bench); RTX 5090 83 of 105, RTX PRO 6000 84 of 126 "
        "(the same). CPU: oneDNN, 0.5 to 0.8 of AVX-512 peak"
    ),
    "unit_fraction": (
        "maximum achievable matmul FLOP/s, bf16: A100 SXM 268 of 312, H100 SXM 792 of 989, B200 1745 of "
        "2250 (stas00/ml-engineering); fp16 2080 Ti 44.9 of 53.8, 3090 Ti 66 of 80; TF32 A100 108 of 156, "
        "A40 40 of 74.8, 3090 Ti 33 of 40 (bewantbe/busy-gemm-benchmark), H100 NVL 265 of 417.5"
    ),
    "fp32_flop_j": (
        "fitted: Pascal (P4), Turing (T4), whose power limit binds; Volta (V100) as a bound, since it "
        "does not. Later architectures from Turing by year: energy efficiency of ML GPUs doubles every 3 "
        "years (Epoch AI, Trends in Machine Learning Hardware, 2023)"
    ),
    "unit_energy_fraction": (
        "geometric mean of two: T4 sustains 24 TFLOP/s fp16 at its 70 W limit (NVIDIA developer forum "
        "264462), A100 SXM 268 at 400 W (above); TF32 moves twice the bits"
    ),
    "stream_fraction": "fitted: HBM2 on V100 and A100, GDDR on P4 and T4, P100 alone. CPU: STREAM",
    "rowwise_fraction": "fitted: softmax and layer norm against elementwise kernels",
    "stream_power_fraction": (
        "assumed: memory-bound kernels draw 50 to 70% of a card's limit (Zeus's recordings of A40 and "
        "V100: DeepSpeech2 160 W, BERT 220 to 270 W)"
    ),
    "lane_tile_s": "fitted, with the rates",
    "unit_tile_s": "what a product of 4096 cubed leaves of the maximum on A100 and H100: 230 and 630 TFLOP/s",
    "product_fraction": (
        "convolution: ResNet-50 v1.5 in NVIDIA/DeepLearningExamples trains at 380 img/s in fp32 and 893 with "
        "fp16 units on one V100-16GB (PyTorch 19.10), at 993 in TF32 and 2711 with fp16 units on one "
        "A100-80GB (PaddlePaddle); on lanes Winograd saves FLOPs, the units get few channels and NCHW. "
        "Attention: FlashAttention-2 reaches up to 230 of 312 TFLOP/s on A100 and 335 of 989 on H100, "
        "forward and backward (Dao 2023)"
    ),
    "cached_fraction": "assumed: of a tensor that fits in L2, the read hits and the write does not stay",
    "kernel_s": "idle between dependent kernels, 2 to 4 us (A100, H100)",
    "launch_s": "one ATen operation from Python with autograd, 6 to 14 us on current hosts; 4.2 us bare",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """Of one chip."""

    flop_per_s: float
    best_flop_per_s: float  # of short products, before power limits them
    bytes_per_s: float
    rowwise: dict[str, float]  # share of bytes_per_s, by operation class


def fitted(data: Path, gpu: Gpu, file: str, tile_s: float) -> Fitted:
    """Rates of one chip from its operator times."""
    matmuls = pd.concat([_table(data, name, file) for name in ("linear", "bmm")])
    shapes = matmuls[["B", "M", "N", "K"]].to_numpy(dtype=float)
    times: Vector = matmuls["Latency"].to_numpy(dtype=float) / 1e3
    flops = 2.0 * shapes.prod(axis=1)
    busy = (flops > LEAST_FLOPS) & (shapes[:, 1:].min(axis=1) >= 32)
    best = float(np.quantile((flops / times)[flops > LEAST_FLOPS], 0.999))
    stream = _elementwise_rate(data, file)
    rowwise = {kind: _rowwise_rate(data, name, file) / stream for kind, name in ROWWISE.items()}
    base = chip(gpu, Precision.FP32)
    assert base is not None
    rate = _rate(shapes[busy], times[busy], replace(base, bytes_per_s=stream), tile_s)
    return Fitted(rate, best, stream, rowwise)


def _rate(shapes: Vector, times: Vector, base: Chip, tile_s: float) -> float:
    """The rate at which the median error of the products is nought."""
    moved = (
        4.0
        * shapes[:, 0]
        * (shapes[:, 1] * shapes[:, 3] + shapes[:, 3] * shapes[:, 2] + shapes[:, 1] * shapes[:, 2])
    )
    rate = 0.7 * base.lane_peak_flop_per_s
    for _ in range(12):
        seconds = matmul_s(shapes, moved, np.full(len(shapes), rate), base, tile_s=tile_s)
        rate *= math.exp(float(np.median(np.log(seconds / times))))
    return min(rate, base.lane_peak_flop_per_s)


def _elementwise_rate(data: Path, file: str) -> float:
    """Median over operations of the rate on large tensors; rows of the five chips only."""
    table = pd.read_csv(data / "neusight" / "operators_test" / "elem.csv.gz")
    table = table[table["Device"].str.replace(" ", "_") == file]
    rates = [_median_rate(table[table["OPName"] == name], count) for name, count in ELEMENTWISE.items()]
    return float(np.median(rates))


def _rowwise_rate(data: Path, name: str, file: str) -> float:
    return _median_rate(_table(data, name, file), 2)


def _median_rate(table: pd.DataFrame, tensors: int) -> float:
    moved = 4.0 * tensors * table["B"].to_numpy(dtype=float) * table["H"].to_numpy(dtype=float)
    times = table["Latency"].to_numpy(dtype=float) / 1e3
    return float(np.median((moved / times)[moved > LEAST_STREAM_BYTES]))


def _table(data: Path, name: str, file: str) -> pd.DataFrame:
    return pd.read_csv(data / "neusight" / "operators" / f"{name}__{file}.csv.gz")


def table_of(found: dict[str, Fitted], gpus: dict[str, Gpu], tile_s: float) -> dict[str, object]:
    """The whole file."""
    lanes: dict[str, float] = {}
    flop_j: dict[str, float] = {}
    for name, one in found.items():
        gpu = gpus[name]
        share = one.flop_per_s / gpu.fp32_flop_per_s
        is_power_limited = share < POWER_LIMITED_BELOW
        best = one.best_flop_per_s if is_power_limited else one.flop_per_s
        lanes[f"{gpu.compute_capability}"] = round(min(0.95, best / gpu.fp32_flop_per_s), 2)
        if is_power_limited or gpu.architecture == "Volta":
            flop_j[gpu.architecture] = float(f"{(gpu.power_w or 0.0) / one.flop_per_s:.3g}")
    turing = flop_j["Turing"]
    for architecture, year in YEARS.items():
        gain = 2.0 ** ((year - YEARS["Turing"]) / EFFICIENCY_DOUBLES_IN_YEARS)
        flop_j[architecture] = float(f"{turing / gain:.3g}")
    streams = {name: one.bytes_per_s / gpus[name].bandwidth_bytes_per_s for name, one in found.items()}
    cited_lanes = CITED["lane_fraction"]
    assert isinstance(cited_lanes, dict)
    return {
        **CITED,
        "lane_fraction": {**lanes, **cited_lanes},
        "rowwise_fraction": {kind: _mean(one.rowwise[kind] for one in found.values()) for kind in ROWWISE},
        "fp32_flop_j": flop_j,
        "stream_fraction": {
            "hbm": _mean(streams[one] for one in ("V100-PCIE-32GB", "A100-PCIE-40GB")),
            "gddr": _mean(streams[one] for one in ("P4-8GB", "T4-16GB")),
            "6.0": round(streams["P100-PCIE-16GB"], 2),
            "cpu": 0.7,
        },
        "lane_tile_s": tile_s,
        "sources": SOURCES,
    }


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 2)


def misfit(data: Path, gpus: dict[str, Gpu], tile_s: float) -> float:
    """Mean over chips of the median absolute log error of large products."""
    errors = []
    for name, file in CHIPS.items():
        one = fitted(data, gpus[name], file, tile_s)
        matmuls = pd.concat([_table(data, kind, file) for kind in ("linear", "bmm")])
        shapes = matmuls[["B", "M", "N", "K"]].to_numpy(dtype=float)
        times = matmuls["Latency"].to_numpy(dtype=float) / 1e3
        busy = (2.0 * shapes.prod(axis=1) > LEAST_FLOPS) & (shapes[:, 1:].min(axis=1) >= 32)
        base = chip(gpus[name], Precision.FP32)
        assert base is not None
        rates = np.full(int(busy.sum()), one.flop_per_s)
        moved = np.zeros(int(busy.sum()))
        seconds = matmul_s(shapes[busy], moved, rates, base, tile_s=tile_s)
        errors.append(float(np.mean(np.abs(np.log(seconds / times[busy])))))
    return float(np.mean(errors))


def main() -> None:
    """Fit, print, write."""
    data, gpus = data_directory(__doc__), load_gpus()
    tile_s = min((1e-6, 2e-6, 4e-6, 6e-6, 8e-6, 10e-6), key=lambda one: misfit(data, gpus, one))
    found = {name: fitted(data, gpus[name], file, tile_s) for name, file in CHIPS.items()}
    print(f"tile fill and drain: {tile_s * 1e6:.0f} us")
    for name, one in found.items():
        gpu = gpus[name]
        print(
            f"{name:16s} products {one.flop_per_s / 1e12:5.2f} of {gpu.fp32_flop_per_s / 1e12:5.2f} TFLOP/s"
            f" (short ones {one.best_flop_per_s / 1e12:5.2f}), streams {one.bytes_per_s / 1e9:6.0f}"
            f" of {gpu.bandwidth_bytes_per_s / 1e9:6.0f} GB/s,"
            f" (of which {', '.join(f'{kind} {share:.2f}' for kind, share in one.rowwise.items())}),"
            f" {(gpu.power_w or 0.0) / one.flop_per_s * 1e12:5.1f} pJ per FLOP at the power limit"
        )
    values = table_of(found, gpus, tile_s)
    parse_reference(values)
    TARGET.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
