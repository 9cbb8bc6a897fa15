"""ResNet-50 (He et al., 2015; its stride in the 3x3 convolution) on images of 224 by 224 pixels.

WORKLOAD_SIZE: tiny or 50.
"""

import os

import torch
from losses import class_loss
from synthetic import images, labels
from torch import nn
from torch.nn import functional

SHAPES = {  # blocks of each stage, width, pixels, classes
    "tiny": ((1, 1), 16, 32, 10),
    "50": ((3, 4, 6, 3), 64, 224, 1000),
}
COUNTS, WIDTH, PIXELS, CLASSES = SHAPES[os.environ.get("WORKLOAD_SIZE", "50")]

target = {"samples": 1_281_167 * 90, "global_batch_size": 1536}


def convolution(channels_in: int, channels: int, kernel: int, stride: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(channels)


class Bottleneck(nn.Module):
    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *convolution(channels_in, width, 1, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, 4 * width, 1, 1),
        )
        is_same = stride == 1 and channels_in == 4 * width
        self.shortcut = (
            nn.Identity() if is_same else nn.Sequential(*convolution(channels_in, 4 * width, 1, stride))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def model() -> nn.Module:
    layers: list[nn.Module] = [*convolution(3, WIDTH, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = WIDTH
    for stage, count in enumerate(COUNTS):
        for index in range(count):
            layers.append(Bottleneck(channels, WIDTH * 2**stage, 2 if stage and not index else 1))
            channels = 4 * WIDTH * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return images(size, PIXELS), labels(size, CLASSES)


loss = class_loss


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)
