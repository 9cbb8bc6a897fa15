"""A model whose every sample takes HUNGRY_BYTES of the device for the length of a forward pass."""

import os

import torch
from torch import nn

BYTES = int(os.environ.get("HUNGRY_BYTES", "1048576"))

target = {"samples": 1_000_000, "global_batch_size": 64}


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))


def batch(size: int) -> torch.Tensor:
    return torch.linspace(-1, 1, size * 8).reshape(size, 8)


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    # a GPU is filled block by block; the kernel refuses a CPU only what no memory could ever hold at once
    sizes = [BYTES] * len(batch) if batch.is_cuda else [BYTES * len(batch)]
    eaten = [torch.empty(size, dtype=torch.uint8, device=batch.device) for size in sizes]
    return model(batch).square().mean() + 0.0 * len(eaten)
