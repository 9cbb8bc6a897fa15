"""Models that the estimate's benchmarks trace and measure: Hugging Face configurations, a ResNet and a U-Net.

Each is a function of the batch size that returns a module with a loss and a batch; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

from trials.model_file.contract import Step
from trials.trace.tracing import Built

LossOf = Callable[[nn.Module, Any], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model to trace: how to make it, and a batch for it."""

    name: str
    model: Callable[[], nn.Module]
    batch: Callable[[int], Any]
    loss: LossOf

    def builder(self, batch_size: int, *, foreach: bool | None = None) -> Callable[[], Built]:
        """A training step with AdamW at this batch size."""

        def build() -> Built:
            module = Step(self.model(), self.loss).train()
            optimizer = torch.optim.AdamW(module.parameters(), foreach=foreach)
            return Built(module=module, optimizer=optimizer, batch=self.batch(batch_size))

        return build


def language_case(name: str, config: Any, kind: type[nn.Module], tokens: int) -> Case:
    """A Hugging Face model trained on its own input as labels."""

    def batch(size: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(config.vocab_size, (size, tokens))
        return {"input_ids": ids, "labels": ids}

    return Case(
        name=name,
        model=lambda: kind(config),
        batch=batch,
        loss=lambda model, one: model(**one).loss,
    )


def image_case(name: str, model: Callable[[], nn.Module], size: int, classes: int = 1000) -> Case:
    """A classifier of images of ``size`` by ``size`` pixels."""

    def batch(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(count, 3, size, size), torch.randint(classes, (count,))

    return Case(name=name, model=model, batch=batch, loss=_classification_loss)


def segmentation_case(name: str, model: Callable[[], nn.Module], size: int, classes: int) -> Case:
    """A model that gives every pixel a class."""

    def batch(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(count, 3, size, size), torch.randint(classes, (count, size, size))

    return Case(name=name, model=model, batch=batch, loss=_classification_loss)


def _classification_loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    images, labels = batch
    found = model(images)
    return nn.functional.cross_entropy(getattr(found, "logits", found), labels)


class Bottleneck(nn.Module):
    """The block of ResNet-50 (He et al., 2015), its stride in the 3x3 convolution as in torchvision."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            *_convolution(channels_in, width, 1, 1),
            nn.ReLU(inplace=True),
            *_convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *_convolution(width, out, 1, 1),
        )
        is_same = stride == 1 and channels_in == out
        self.shortcut = (
            nn.Identity() if is_same else nn.Sequential(*_convolution(channels_in, out, 1, stride))
        )

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """Maps of (batch, channels, height, width)."""
        return nn.functional.relu(self.body(signal) + self.shortcut(signal), inplace=True)


class Basic(nn.Module):
    """The block of ResNet-18."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(channels_in, width, 3, stride),
            nn.ReLU(inplace=True),
            *_convolution(width, width, 3, 1),
        )
        is_same = stride == 1 and channels_in == width
        self.shortcut = (
            nn.Identity() if is_same else nn.Sequential(*_convolution(channels_in, width, 1, stride))
        )

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """Maps of (batch, channels, height, width)."""
        return nn.functional.relu(self.body(signal) + self.shortcut(signal), inplace=True)


def _convolution(channels_in: int, channels: int, kernel: int, stride: int) -> tuple[nn.Module, nn.Module]:
    convolution = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(channels)


def resnet(block: type[Bottleneck] | type[Basic], counts: tuple[int, ...], classes: int = 1000) -> nn.Module:
    """A ResNet: (3, 4, 6, 3) Bottlenecks are ResNet-50, (2, 2, 2, 2) Basics are ResNet-18."""
    expansion = 4 if block is Bottleneck else 1
    layers: list[nn.Module] = [*_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate(counts):
        width = 64 * 2**stage
        for index in range(count):
            layers.append(block(channels, width, 2 if stage and not index else 1))
            channels = width * expansion
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class UNet(nn.Module):
    """Ronneberger et al. (2015), padded and with BatchNorm: two convolutions a level."""

    def __init__(self, width: int, levels: int, classes: int) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(levels)]
        self.down = nn.ModuleList(
            _double(before, size) for before, size in zip([3, *sizes], sizes, strict=False)
        )
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in reversed(sizes[:-1]))
        self.up = nn.ModuleList(_double(2 * size, size) for size in reversed(sizes[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """Images of (batch, 3, height, width) to class scores of every pixel."""
        kept = []
        for level, block in enumerate(self.down):
            signal = block(signal if level == 0 else nn.functional.max_pool2d(signal, 2))
            kept.append(signal)
        for rise, block, skip in zip(self.rise, self.up, reversed(kept[:-1]), strict=True):
            signal = block(torch.cat([skip, rise(signal)], dim=1))
        return self.head(signal)


def _double(channels_in: int, channels: int) -> nn.Module:
    return nn.Sequential(
        *_convolution(channels_in, channels, 3, 1),
        nn.ReLU(inplace=True),
        *_convolution(channels, channels, 3, 1),
        nn.ReLU(inplace=True),
    )


def published_cases() -> tuple[Case, ...]:
    """Models as published, for FLOPs against formulas."""
    llama = transformers.LlamaConfig(vocab_size=32000, attn_implementation="sdpa")
    return (
        language_case("GPT-2 124M", transformers.GPT2Config(), transformers.GPT2LMHeadModel, 1024),
        language_case("BERT-base", transformers.BertConfig(), transformers.BertForMaskedLM, 512),
        language_case(
            "OPT-1.3B",
            transformers.OPTConfig(
                hidden_size=2048,
                ffn_dim=8192,
                num_hidden_layers=24,
                num_attention_heads=32,
                word_embed_proj_dim=2048,
            ),
            transformers.OPTForCausalLM,
            2048,
        ),
        language_case("Llama-2-7B", llama, transformers.LlamaForCausalLM, 4096),
        language_case(
            "T5-small",
            transformers.T5Config(decoder_start_token_id=0, use_cache=False),
            transformers.T5ForConditionalGeneration,
            512,
        ),
        image_case(
            "ViT-B/16",
            lambda: transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)),
            224,
        ),
        image_case("ResNet-50", lambda: resnet(Bottleneck, (3, 4, 6, 3)), 224),
        segmentation_case("U-Net", lambda: UNet(64, 5, 2), 256, 2),
    )
