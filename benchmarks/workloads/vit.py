"""ViT-B/16 (Dosovitskiy et al., 2020) on images of 224 by 224 pixels.

WORKLOAD_SIZE: tiny or base.
"""

import os

import torch
from losses import class_loss
from synthetic import images, labels
from torch import nn

SHAPES = {  # layers, heads, width, patch, pixels, classes
    "tiny": (2, 2, 64, 8, 32, 10),
    "base": (12, 12, 768, 16, 224, 1000),
}
LAYERS, HEADS, WIDTH, PATCH, PIXELS, CLASSES = SHAPES[os.environ.get("WORKLOAD_SIZE", "base")]

target = {"samples": 1_281_167 * 300, "global_batch_size": 1536}


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, (PIXELS // PATCH) ** 2 + 1, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.stem(pixels).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(len(x), 1, WIDTH), x), dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def model() -> nn.Module:
    return ViT()


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return images(size, PIXELS), labels(size, CLASSES)


loss = class_loss


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1)
