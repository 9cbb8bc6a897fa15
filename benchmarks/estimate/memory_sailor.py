"""Peak memory of OPT-350M and GPT-Neo-2.7B under Megatron-DeepSpeed on GH200, from the configuration alone.

Data: eth-easl/sailor (sailor/validation_measured.csv), the 27 rows of the Clariden cluster; the peak is what
nvidia-smi shows, so it includes the CUDA context and NCCL. Nothing is fitted to any row. What the rows do not
say stands in Sailor's source: fp32 training, Adam, gradients flattened for the all-reduce, no ZeRO, no
dropout on the attention matrix (gpt_neo_model.py), sequences of 2,048.

Baseline: 16 bytes per parameter, 89%.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.estimate.scores import Row, data_directory, exact_interval, leave_one_group_out, summary
from planner.estimate.memory.breakdown import UPPER_FRACTION, MemoryBreakdown
from planner.estimate.memory.stage_memory import MegatronState, megatron_memory
from planner.estimate.scaling.collectives import Transport
from planner.estimate.scaling.layout import Layout, TransformerShape

SHAPES = {  # from the models' configurations on Hugging Face
    "OPT-350": TransformerShape(
        layer_count=24,
        hidden_size=1024,
        head_count=16,
        sequence_length=2048,
        vocabulary_size=50_272,
        has_attention_dropout=False,
    ),
    "GPT-NEO": TransformerShape(
        layer_count=32,
        hidden_size=2560,
        head_count=20,
        sequence_length=2048,
        vocabulary_size=50_257,
        has_attention_dropout=False,
    ),
}
STATE = MegatronState(element_bytes=4, optimizer_bytes=8.0)  # fp32


def layers_of(row: dict[str, Any]) -> list[int]:
    """Transformer layers by stage: the first module is the embedding, the last one the head."""
    modules: list[int] = ast.literal_eval(row["layers_per_stage"])
    modules[0] -= 1
    modules[-1] -= 1
    return modules


def breakdown_of(row: dict[str, Any]) -> MemoryBreakdown:
    """The predicted parts."""
    layout = Layout(
        tensor=row["tp"],
        pipeline=row["pp"],
        data=row["dp"],
        micro_batch_size=row["mbs"],
        micro_batch_count=max(1, row["gbs"] // row["dp"] // row["mbs"]),
        workers_per_node=4,
    )
    return megatron_memory(SHAPES[row["model"]], layout, layers_of(row), STATE, Transport.NVLINK)


def predictions(data: Path) -> list[tuple[dict[str, Any], Row]]:
    """All 27 rows with their predictions."""
    table = pd.read_csv(data / "sailor" / "validation_measured.csv")
    records = table[table.cluster == "clariden"].to_dict("records")
    return [
        (
            record,
            Row(
                group=record["model"],
                measured=record["max_mem_bytes"],
                predicted=breakdown_of(record).total_bytes,
            ),
        )
        for record in records
    ]


def main() -> None:
    """Print the table."""
    found = predictions(data_directory(__doc__))
    print(f"{'model':9}{'dp':>4}{'pp':>4}{'micro':>6}{'measured':>10}{'predicted':>10}{'error':>8}")
    for record, row in found:
        is_odd = sum(layers_of(record)) != SHAPES[record["model"]].layer_count
        print(
            f"{record['model']:9}{record['dp']:4}{record['pp']:4}{record['mbs']:6}"
            f"{row.measured / 2**30:10.1f}{row.predicted / 2**30:10.1f}{row.error_fraction:+8.1%}"
            f"{'   layers of the other model: a mislabelled row' if is_odd else ''}"
        )
    rows = [row for _, row in found]
    sound = [row for record, row in found if sum(layers_of(record)) == SHAPES[record["model"]].layer_count]
    print(f"all {summary(rows)}   (aim: under 15%)")
    print(f"without the mislabelled one, {summary(sound)}")
    fits = sum(row.measured <= row.predicted * (1 + UPPER_FRACTION) for row in rows)
    low, high = exact_interval(fits, len(rows))
    print(f"under the upper bound (+{UPPER_FRACTION:.0%}): {fits}/{len(rows)} (95%: {low:.1%} to {high:.1%})")
    each = [Row(group=str(i), measured=one.measured, predicted=one.predicted) for i, one in enumerate(rows)]
    print("two-sided 90%, width from the other rows:", leave_one_group_out(each).line())


if __name__ == "__main__":
    main()
