"""Stacks of linear layers: "small" is bound by kernel launches, "wide" by matrix products.

WORKLOAD_SIZE: tiny, small or wide. WORKLOAD_WIDTH overrides the width, to see what multiples of 8 are worth.
"""

import os

import torch
from synthetic import rows
from torch import nn
from torch.nn import functional

SHAPES = {  # layers, width
    "tiny": (4, 64),
    "small": (32, 256),
    "wide": (8, 4096),
}
LAYERS, WIDTH = SHAPES[os.environ.get("WORKLOAD_SIZE", "small")]
WIDTH = int(os.environ.get("WORKLOAD_WIDTH", WIDTH))

target = {"samples": 16384 * 10_000, "global_batch_size": 16384}


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(self.linear(x))


def model() -> nn.Module:
    return nn.Sequential(*(Layer() for _ in range(LAYERS)))


def batch(size: int) -> torch.Tensor:
    return rows(size, WIDTH)


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return model(batch).square().mean()


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)
