"""A U-Net (Ronneberger et al., 2015), padded and with BatchNorm, that segments images of 256 by 256 pixels.

WORKLOAD_SIZE: tiny or full.
"""

import os

import torch
from losses import class_loss
from synthetic import images, labels
from torch import nn
from torch.nn import functional

SHAPES = {  # width, levels, pixels, classes
    "tiny": (8, 3, 32, 2),
    "full": (64, 5, 256, 2),
}
WIDTH, LEVELS, PIXELS, CLASSES = SHAPES[os.environ.get("WORKLOAD_SIZE", "full")]

target = {"samples": 192 * 10_000, "global_batch_size": 192}


def double(channels_in: int, channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, 1, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = [WIDTH * 2**level for level in range(LEVELS)]
        self.down = nn.ModuleList(map(double, [3, *sizes[:-1]], sizes))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in reversed(sizes[:-1]))
        self.up = nn.ModuleList(double(2 * size, size) for size in reversed(sizes[:-1]))
        self.head = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for rise, block, skip in zip(self.rise, self.up, reversed(kept[:-1]), strict=True):
            x = block(torch.cat([skip, rise(x)], dim=1))
        return self.head(x)


def model() -> nn.Module:
    return UNet()


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return images(size, PIXELS), labels(size, CLASSES, PIXELS, PIXELS)


loss = class_loss


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)
