"""Live bytes at the peak of a large micro batch: the line through traces of 2 and 8 samples, against its own.

    python benchmarks/estimate/trace_memory.py [BATCH]     # 64 samples; about six minutes on two cores

No GPU is needed, and nothing but the size is extrapolated: what the allocator and the libraries add is not in
it. *Whole* is the line through the whole peaks, which in small batches of large models are the optimizer's
update; *passes* is the product's, through the passes and over the update.
"""

from __future__ import annotations

import sys

import transformers

from benchmarks.estimate.models import Bottleneck, Case, image_case, language_case, resnet
from planner.estimate.memory.breakdown import fit_memory_line
from trials.profile import Trace
from trials.trace.tracing import trace_built
from trials.trial import Precision

GIB = 2**30
SMALL = (2, 8)


def cases() -> tuple[Case, ...]:
    """From much state and few activations to the reverse."""
    large = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    )
    vit = transformers.ViTConfig(num_labels=1000)
    return (
        language_case("BERT-large", large, transformers.BertForMaskedLM, 128),
        image_case("ViT-B/16", lambda: transformers.ViTForImageClassification(vit), 224),
        image_case("ResNet-50", lambda: resnet(Bottleneck, (3, 4, 6, 3)), 224),
        language_case("GPT-2", transformers.GPT2Config(use_cache=False), transformers.GPT2LMHeadModel, 1024),
    )


def main(size: int) -> None:
    """Print the table."""
    print(f"{'model':12}{'dtype':7}{'accumulation':>13}{'GiB':>8}{'whole':>9}{'passes':>9}")
    for case in cases():
        for precision in (Precision.FP32, Precision.BF16):
            traces = [
                trace_built(case.builder(one), micro_batch_size=one, precision=precision)
                for one in (*SMALL, size)
            ]
            for accumulation in (1, 2):
                _print(case.name, precision, accumulation, traces)


def _print(name: str, precision: str, accumulation: int, traces: list[Trace]) -> None:
    *small, large = traces
    whole = {
        one.micro_batch_size: one.peak_bytes if accumulation == 1 else one.peak_accumulating_bytes
        for one in traces
    }
    truth = whole.pop(large.micro_batch_size)
    lines = (
        fit_memory_line(whole.items()),
        fit_memory_line((one.micro_batch_size, one.passes_bytes) for one in small),
    )
    before, after = (line.expected_bytes(large.micro_batch_size) for line in lines if line is not None)
    after -= large.gradient_bytes if accumulation == 1 else 0
    after = max(after, *(one.update_bytes for one in small))
    print(
        f"{name:12}{precision:7}{accumulation:13}{truth / GIB:8.2f}{before / truth - 1:+9.1%}"
        f"{after / truth - 1:+9.1%}",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 64)
