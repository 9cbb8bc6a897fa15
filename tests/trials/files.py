"""Model files for the tests of `trials`: a small one that works, and changes to it."""

from __future__ import annotations

from pathlib import Path

from trials.model_file.contract import LoadedWorkload
from trials.model_file.source import hash_workload
from trials.model_file.workload import load
from trials.trial import Parallelism, Precision, TrialConfig, Workload

PLAIN = """
import torch
from torch import nn
from torch.nn import functional

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.Tanh())
    def forward(self, x):
        return x + self.layers(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.last = nn.Linear(8, 1)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(x)

def model():
    return Net()

def dataset():
    x = torch.linspace(-1, 1, 64 * 8).reshape(64, 8)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())

def loss(model, batch):
    x, y = batch
    return functional.mse_loss(model(x), y)
"""
"""One that meets the contract: three equal blocks, 64 samples."""


def write(folder: Path, text: str, name: str = "model.py") -> Workload:
    """The workload of a model file with this text."""
    file = folder / name
    file.write_text(text)
    return hash_workload(file)


def load_text(folder: Path, text: str) -> LoadedWorkload:
    """A model file with this text, loaded here."""
    return load(write(folder, text))


def on_cpu(**changes: object) -> TrialConfig:
    """A trial of one CPU worker: micro batch size 8 in fp32."""
    values: dict[str, object] = {
        "gpu": "CPU",
        "gpu_count": 1,
        "micro_batch_size": 8,
        "accumulation": 1,
        "precision": Precision.FP32,
        "parallelism": Parallelism.SINGLE,
    }
    return TrialConfig(**(values | changes))  # type: ignore[arg-type]
