"""A small convnet whose images are stored compressed: reading one costs more than training on it.

WORKLOAD_SIZE: tiny or full. What asynchronous loading is worth shows here, not with synthetic batches.
"""

import os
import zlib

import torch
from losses import class_loss
from torch import nn
from torch.utils.data import Dataset

SHAPES = {  # pixels, samples, width
    "tiny": (64, 64, 8),
    "full": (224, 2048, 64),
}
PIXELS, SAMPLES, WIDTH = SHAPES[os.environ.get("WORKLOAD_SIZE", "full")]

target = {"epochs": 90, "global_batch_size": 64}


class Compressed(Dataset):
    """Images as zlib keeps them, decompressed and normalised at each reading."""

    def __init__(self) -> None:
        pixels = torch.randint(16, (3, PIXELS, PIXELS), dtype=torch.uint8)
        self.stored = zlib.compress(pixels.numpy().tobytes())

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        raw = torch.frombuffer(bytearray(zlib.decompress(self.stored)), dtype=torch.uint8)
        pixels = raw.view(3, PIXELS, PIXELS).float().div_(16)
        return (pixels - pixels.mean()) / pixels.std(), index % 10


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 7, 4), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 10),
    )  # fmt: skip


def dataset() -> Dataset:
    return Compressed()


loss = class_loss
