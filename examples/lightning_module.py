"""A LightningModule, as it is, with its own optimizer and train_dataloader, on scikit-learn's digits.

    planner sweep examples/lightning_module.py --budget 20

The loader's batch size is set by each trial; its data set, order and workers are kept. SIZE is the knob.
"""

import torch
from lightning.pytorch import LightningModule
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

SIZE = "tiny"  # tiny, small or large

WIDTH, DEPTH = {"tiny": (1024, 4), "small": (2048, 4), "large": (4096, 6)}[SIZE]

target = {"epochs": 5_000, "global_batch_size": 128}


class DigitClassifier(LightningModule):
    """A residual multilayer perceptron."""

    def __init__(self, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.first = nn.Linear(64, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(DEPTH)
        )
        self.last = nn.Linear(WIDTH, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.first(pixels)
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        pixels, labels = batch
        logits = self(pixels)
        loss = functional.cross_entropy(logits, labels)
        self.log("loss", loss)
        self.log("accuracy", (logits.argmax(1) == labels).float().mean(), prog_bar=True)
        return loss

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.learning_rate)
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def train_dataloader(self) -> DataLoader:
        digits = load_digits()
        pixels = torch.tensor(digits.data, dtype=torch.float32) / 16
        labels = torch.tensor(digits.target, dtype=torch.int64)
        return DataLoader(TensorDataset(pixels, labels), batch_size=64, shuffle=True)
