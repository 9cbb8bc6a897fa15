"""Peak memory of a training step: traced without running it, against the CPU allocator's own count.

    python benchmarks/estimate/memory_cpu.py            # ten models, three batch sizes, about ten minutes
    python benchmarks/estimate/memory_cpu.py ResNet     # models whose name holds this

Each measurement is two AdamW steps in a process of its own under torch.profiler, whose "Total Allocated" is
the allocator's running total of live bytes (it adds up over the profiles of one process). The trace is made
with the operations of the CPU (`is_cuda=False`). The last column is the line through the smallest and the
largest measured batch, asked for the middle one. The batch sizes are such that activations matter: below
them the optimizer's own peak (parameters, gradients, two moments, one temporary of the size of a parameter)
is the highest, which no batch size changes, and the line bends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

import torch
import transformers
from torch import nn

from benchmarks.estimate.models import (
    Basic,
    Bottleneck,
    Case,
    UNet,
    image_case,
    language_case,
    resnet,
    segmentation_case,
)
from trials.trace.tracing import trace_built

MIB = 2**20


def cases() -> tuple[tuple[Case, tuple[int, int, int]], ...]:
    """Ten models that two CPU cores can train, and the batch sizes of each."""
    return (
        (language_case("GPT-2", _gpt2(), transformers.GPT2LMHeadModel, 128), (2, 6, 16)),
        (language_case("BERT", _bert(), transformers.BertForMaskedLM, 128), (2, 6, 16)),
        (language_case("OPT", _opt(), transformers.OPTForCausalLM, 128), (2, 6, 16)),
        (language_case("Llama", _llama(), transformers.LlamaForCausalLM, 128), (2, 6, 16)),
        (language_case("T5", _t5(), transformers.T5ForConditionalGeneration, 128), (4, 8, 16)),
        (image_case("ViT", lambda: transformers.ViTForImageClassification(_vit()), 224, 100), (4, 12, 32)),
        (image_case("ResNet-18", lambda: resnet(Basic, (2, 2, 2, 2), 100), 96, 100), (4, 12, 32)),
        (image_case("ResNet-50", lambda: resnet(Bottleneck, (3, 4, 6, 3), 100), 64, 100), (4, 12, 32)),
        (segmentation_case("U-Net", lambda: UNet(16, 4, 5), 64, 5), (4, 12, 32)),
        (image_case("Mixer", lambda: Mixer(64, 8, 128, 4, 100), 64, 100), (8, 24, 64)),
    )


class Mixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al., 2021): patches, then layers over patches and over channels."""

    def __init__(self, size: int, patch: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        patches = (size // patch) ** 2
        self.stem = nn.Conv2d(3, width, patch, patch)
        self.over_patches = nn.ModuleList(_perceptron(patches) for _ in range(depth))
        self.over_channels = nn.ModuleList(_perceptron(width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        x = self.stem(images).flatten(2).transpose(1, 2)
        for index, (patches, channels) in enumerate(zip(self.over_patches, self.over_channels, strict=True)):
            x = x + patches(self.norms[2 * index](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * index + 1](x))
        return self.head(x.mean(1))


def _perceptron(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))


def _gpt2() -> transformers.GPT2Config:
    return transformers.GPT2Config(
        vocab_size=8192, n_positions=128, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0
    )


def _bert() -> transformers.BertConfig:
    return transformers.BertConfig(
        vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
    )


def _opt() -> transformers.OPTConfig:
    return transformers.OPTConfig(
        vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, ffn_dim=1024,
        word_embed_proj_dim=256, max_position_embeddings=128,
    )  # fmt: skip


def _llama() -> transformers.LlamaConfig:
    return transformers.LlamaConfig(
        vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=688,
    )  # fmt: skip


def _t5() -> transformers.T5Config:
    return transformers.T5Config(
        vocab_size=8192, d_model=256, d_ff=1024, num_layers=3, num_heads=4, d_kv=64, decoder_start_token_id=0
    )


def _vit() -> transformers.ViTConfig:
    return transformers.ViTConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, image_size=224,
        num_labels=100,
    )  # fmt: skip


def measured_bytes(name: str, batch_size: int) -> int:
    """The allocator's peak over two steps, in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, str(batch_size)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        sys.exit(f"{name} at batch {batch_size}: {answer.stderr[-2000:]}")
    return int(answer.stdout.split()[-1])


def _measure(name: str, batch_size: int) -> int:
    case = next(case for case, _ in cases() if case.name == name)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        built = case.builder(batch_size)()
        assert built.optimizer is not None
        for _ in range(2):
            built.module(built.batch).backward()
            built.optimizer.step()
            built.optimizer.zero_grad(set_to_none=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return max(event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]")


def main() -> None:
    """Print the table."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    print(
        f"{'model':10s} {'batch':>5s} {'traced':>9s} {'measured':>9s} {'error':>7s} {'two-point line':>15s}"
    )
    errors, line_errors = [], []
    for case, sizes in cases():
        if wanted not in case.name:
            continue
        measured = [measured_bytes(case.name, size) for size in sizes]
        slope = (measured[2] - measured[0]) / (sizes[2] - sizes[0])
        line = abs(measured[0] + slope * (sizes[1] - sizes[0]) - measured[1]) / measured[1]
        line_errors.append(line)
        for index, (size, real) in enumerate(zip(sizes, measured, strict=True)):
            traced = trace_built(case.builder(size), micro_batch_size=size, is_cuda=False).peak_bytes
            errors.append(abs(traced - real) / real)
            middle = f"{line:15.2%}" if index == 1 else ""
            sizes_text = f"{traced / MIB:7.1f} M {real / MIB:7.1f} M {traced / real - 1:+7.2%}"
            print(f"{case.name:10s} {size:5d} {sizes_text} {middle}", flush=True)
    print(
        f"mean absolute error traced {mean(errors):.2%}, worst {max(errors):.2%}; "
        f"two-point line {mean(line_errors):.2%}, worst {max(line_errors):.2%}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(_measure(sys.argv[2], int(sys.argv[3])))
    else:
        main()
