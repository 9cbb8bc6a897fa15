"""What a trace says of published models, how long it takes, and its FLOPs against formulas.

    python benchmarks/estimate/trace_models.py

One training step with AdamW at batch size 8 (Llama: 1) in fp32, in bf16, and in bf16 with its blocks
checkpointed.
The formulas know nothing of the trace. Language models: 6 FLOPs per multiplied parameter and token (Kaplan et
al., 2020) and 14 T^2 d per layer for attention, whose backward computes the scores again (Dao et al., 2022).
ResNet-50: 4.09 G multiply-adds forward (He et al., 2015; torchvision's documentation), three times, less the
gradient of the images. ViT-B/16: 17.58 G forward (Touvron et al., 2021, DeiT-B).
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass

from benchmarks.estimate.models import Case, published_cases
from trials.modes import TECHNIQUES
from trials.profile import Trace
from trials.trace.tracing import Built, trace_built
from trials.trial import Precision

GIGA = 1e9
STEPS = {
    "fp32": (Precision.FP32, False),
    "bf16": (Precision.BF16, False),
    "bf16 ckpt": (Precision.BF16, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """What the formula of a language model needs; sizes in counts."""

    parameters: float  # that multiply: all but lookups, a shared embedding once
    tokens: int
    attentions: int  # attention layers; an encoder-decoder has three of them per pair of layers
    width: int  # of all heads together

    def flops(self) -> float:
        """Of one sample, forward and backward."""
        attention = 14 * self.attentions * self.tokens**2 * self.width
        return 6 * self.parameters * self.tokens + attention


def formulas() -> dict[str, float]:
    """FLOPs of a training step per sample."""
    gpt2 = 12 * 12 * 768**2 + 50257 * 768
    bert = 12 * 12 * 768**2 + 768**2 + 30522 * 768  # the head's own layer, and the shared embedding
    opt = 24 * 12 * 2048**2 + 50272 * 2048
    llama = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096
    t5 = 6 * (4 * 512**2 + 2 * 512 * 2048) + 6 * (8 * 512**2 + 2 * 512 * 2048) + 32128 * 512
    return {
        "GPT-2 124M": Decoder(parameters=gpt2, tokens=1024, attentions=12, width=768).flops(),
        "BERT-base": Decoder(parameters=bert, tokens=512, attentions=12, width=768).flops(),
        "OPT-1.3B": Decoder(parameters=opt, tokens=2048, attentions=24, width=2048).flops(),
        "Llama-2-7B": Decoder(parameters=llama, tokens=4096, attentions=32, width=4096).flops(),
        "T5-small": Decoder(parameters=t5, tokens=512, attentions=18, width=512).flops(),
        "ViT-B/16": 6 * 17.58 * GIGA,
        "ResNet-50": 6 * 4.09 * GIGA - 2 * 64 * 3 * 49 * 112**2,
        "U-Net": unet_flops(width=64, levels=5, size=256, classes=2),
    }


def unet_flops(*, width: int, levels: int, size: int, classes: int) -> float:
    """Of a training step per image: every multiply-add six times, but for the gradient of the image."""
    total = 0.0
    before = 3
    for level in range(levels):
        channels, pixels = width * 2**level, (size >> level) ** 2
        total += 9 * pixels * channels * (before + channels)
        before = channels
        if level < levels - 1:  # on the way up: the doubling, then two convolutions over both halves
            total += pixels * channels * 2 * channels + 9 * pixels * channels * 3 * channels
    total += size**2 * width * classes
    return 6 * total - 2 * 9 * size**2 * 3 * width


def timed_trace(
    case: Case, batch_size: int, precision: Precision, *, is_checkpointed: bool
) -> tuple[Trace, float]:
    """A trace and the seconds that it took, building included."""
    plain = case.builder(batch_size)

    def build() -> Built:
        built = plain()
        if is_checkpointed:
            TECHNIQUES["activation_checkpointing"].prepare(built.module)
        return built

    start = time.perf_counter()
    trace = trace_built(
        build,
        micro_batch_size=batch_size,
        precision=precision,
        techniques=("activation_checkpointing",) if is_checkpointed else (),
    )
    return trace, time.perf_counter() - start


def main() -> None:
    """Print the table."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    expected = formulas()
    print("model       batch step      seconds    TFLOP  formula   error  GB moved kernels  peak GB")
    for case in published_cases():
        if wanted not in case.name:
            continue
        batch_size = 1 if case.name.startswith("Llama") else 8
        formula = expected[case.name] * batch_size
        for step, (precision, is_checkpointed) in STEPS.items():
            trace, seconds = timed_trace(case, batch_size, precision, is_checkpointed=is_checkpointed)
            compared = f"{formula / 1e12:8.3f} {trace.flops / formula - 1:+7.2%}"
            print(
                f"{case.name:11s} {batch_size:5d} {step:9s} {seconds:7.1f} {trace.flops / 1e12:8.3f}"
                f" {' ' * 16 if is_checkpointed else compared} {trace.bytes / GIGA:9.1f}"
                f" {trace.kernel_count:7d} {trace.peak_bytes / GIGA:8.2f}",
                flush=True,
            )
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"this process held {held / GIGA:.2f} GB at most")


if __name__ == "__main__":
    main()
