"""BERT-base (Devlin et al., 2018) at 512 tokens, trained on all positions with torch's own encoder layer.

WORKLOAD_SIZE: tiny or base.
"""

import os

import torch
from synthetic import tokens
from torch import nn
from torch.nn import functional

SHAPES = {  # layers, heads, width, context, vocabulary
    "tiny": (2, 2, 64, 64, 512),
    "base": (12, 12, 768, 512, 30528),
}
LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = SHAPES[os.environ.get("WORKLOAD_SIZE", "base")]

tokens_per_sample = CONTEXT
target = {"samples": 768 * 10_000, "global_batch_size": 768}


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.1, activation="gelu", batch_first=True
            )
            for _ in range(LAYERS)
        )
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
        for one in (self.tokens, self.positions):
            nn.init.normal_(one.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.head(x), self.tokens.weight)


def model() -> nn.Module:
    return Bert()


def batch(size: int) -> torch.Tensor:
    return tokens(size, CONTEXT, VOCABULARY)


def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, :-1].flatten())


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01)
