"""A ResNet-style convnet on real images: scikit-learn's handwritten digits, 8 by 8 pixels.

    planner sweep examples/convnet.py --budget 50

Shows samples and epochs: the data set knows its size, so the target is given in epochs. SIZE is the knob.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

SIZE = "tiny"  # tiny, small or large

STAGES = {  # (channels, blocks) of each stage
    "tiny": [(32, 2), (64, 2)],
    "small": [(64, 2), (128, 2), (256, 2)],
    "large": [(128, 3), (256, 4), (512, 6)],
}[SIZE]

target = {"epochs": 20_000, "global_batch_size": 128}


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        is_same = stride == 1 and channels_in == channels
        self.shortcut = nn.Identity() if is_same else nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def model() -> nn.Module:
    width = STAGES[0][0]
    layers: list[nn.Module] = [nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for stage, (channels, count) in enumerate(STAGES):
        for index in range(count):
            layers.append(Residual(width, channels, stride=2 if stage and not index else 1))
            width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def dataset() -> Dataset:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    return TensorDataset(images, torch.tensor(digits.target, dtype=torch.int64))


def loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)
