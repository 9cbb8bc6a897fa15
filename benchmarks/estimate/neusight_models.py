"""Traces of the models that NeuSight measured (Lee et al., ASPLOS 2025), as it measured them.

The configurations are those of its repository (scripts/asplos/data/DLmodel_configs, MIT); how they ran is in
its neusight/Tracing/trace.py, measure_e2e: Hugging Face models in fp32 without TF32, eager attention, a batch
of ones; `inf` is one forward pass without gradients; `train` is forward and backward without the loss and
without an optimizer, the gradients never cleared, so that every backward adds to them.

What the trace takes as given, since it depends on values: of the four experts of a Switch layer, inference
runs one (equal tokens choose equally), training all four, each with its capacity of 64 tokens a sequence.

    python benchmarks/estimate/neusight_models.py    # writes neusight_traces.json again (about two minutes)
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from trials.profile import Operation, OperationClass, Trace, TraceMode
from trials.trial import Precision

TRACES = Path(__file__).with_name("neusight_traces.json")

ROWS = (  # model, sequence length, batch, mode: every unfused single-GPU row of the published table
    *(("bert_large", 512, batch, "inf") for batch in (8, 16)),
    *(("bert_large", 512, batch, "train") for batch in (2, 8)),
    *(("gpt2_large", 1024, batch, "inf") for batch in (4, 8)),
    *(("gpt2_large", 1024, batch, "train") for batch in (1, 4)),
    *((model, 2048, batch, "inf") for model in ("gpt3_xl", "opt_13", "gpt3_27") for batch in (2, 8)),
    *((model, 2048, 1, "train") for model in ("gpt3_xl", "gpt3_27")),
    *(("opt_13", 2048, batch, "train") for batch in (1, 2)),
    *(("switchxl4", 512, batch, mode) for batch in (1, 2) for mode in ("inf", "train")),
)
_OUTSIDE_THE_TIMING = ("aten._log_softmax", "aten.nll_loss_forward")  # the loss


def trace_row(model_name: str, seqlen: int, batch: int, mode: str) -> Trace:
    """The trace of one measured row, by the names of NeuSight's table; from the file where it is there."""
    found = _stored().get((model_name, seqlen, batch, mode))
    return found if found is not None else trace_now(model_name, seqlen, batch, mode)


def trace_now(model_name: str, seqlen: int, batch: int, mode: str) -> Trace:
    """The same, traced now: some ten seconds."""
    from trials.trace.tracing import Built, trace_built

    is_training = mode == "train"

    def build() -> Built:
        import torch

        from benchmarks.estimate.neusight_modules import measured_module

        ids = torch.ones(batch, seqlen, dtype=torch.int64)
        module = measured_module(model_name, is_training=is_training)
        return Built(module=module, optimizer=None, batch=ids)

    trace = trace_built(
        build,
        micro_batch_size=batch,
        precision=Precision.FP32,
        mode=TraceMode.GRADIENTS if is_training else TraceMode.INFERENCE,
    )
    kept = tuple(one for one in trace.operations if one.name not in _OUTSIDE_THE_TIMING)
    return replace(trace, operations=kept)


@cache
def _stored() -> dict[tuple[str, int, int, str], Trace]:
    if not TRACES.exists():
        return {}
    rows = json.loads(TRACES.read_text())["rows"]
    return {(row["model"], row["seqlen"], row["batch"], row["mode"]): _from_row(row) for row in rows}


def _from_row(row: dict[str, Any]) -> Trace:
    operations = tuple(
        Operation(
            name=name,
            kind=OperationClass(kind),
            dtype=dtype,
            shape=tuple(shape),
            count=count,
            flops=flops,
            bytes=size,
        )
        for name, kind, dtype, shape, count, flops, size in row["operations"]
    )
    return Trace(
        micro_batch_size=row["batch"],
        precision=Precision.FP32,
        operations=operations,
        mode=TraceMode.GRADIENTS if row["mode"] == "train" else TraceMode.INFERENCE,
        **row["sizes_bytes"],
    )


def _to_row(key: tuple[str, int, int, str], trace: Trace) -> dict[str, Any]:
    sizes = ("peak", "parameter", "gradient", "optimizer", "buffer", "batch", "peak_accumulating")
    return {
        **dict(zip(("model", "seqlen", "batch", "mode"), key, strict=True)),
        "sizes_bytes": {f"{name}_bytes": getattr(trace, f"{name}_bytes") for name in sizes},
        "operations": [
            [one.name, one.kind, one.dtype, one.shape, one.count, int(one.flops), int(one.bytes)]
            for one in trace.operations
        ],
    }


def main() -> None:
    """Trace every row and write the file."""
    rows = []
    for key in ROWS:
        trace = trace_now(*key)
        rows.append(json.dumps(_to_row(key, trace), separators=(",", ":")))
        print(
            f"{key[0]:11s} {key[1]:5d} {key[2]:3d} {key[3]:6s} {trace.flops / 1e12:8.2f} TFLOP"
            f" {trace.bytes / 1e9:8.1f} GB {trace.kernel_count:6d} kernels"
        )
    TRACES.write_text('{"rows":[\n' + ",\n".join(rows) + "\n]}\n")


if __name__ == "__main__":
    main()
