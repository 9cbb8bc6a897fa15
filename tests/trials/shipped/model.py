"""Needs a module beside it and data by a relative path; beside it lie names that could shadow others."""

import random
from pathlib import Path

import beside
import torch
from torch import nn

WIDTH = int(Path("data/width.txt").read_text())


def model():
    return nn.Linear(WIDTH, beside.CLASSES)


def batch(size):
    return torch.randn(size, WIDTH), torch.randint(0, beside.CLASSES, (size,))


def loss(model, batch):
    if len(batch[0]) == 33:
        raise ValueError(f"{__file__} and {random.__file__}")
    return nn.functional.cross_entropy(model(batch[0]), batch[1])
