"""GPT-2 (Radford et al., 2019) at 1,024 tokens, its vocabulary padded to 50,304 as in nanoGPT.

WORKLOAD_SIZE: tiny, 124m or 355m.
"""

import os

import torch
from losses import next_token_loss
from synthetic import tokens
from torch import nn
from torch.nn import functional

SHAPES = {  # layers, heads, width, context, vocabulary
    "tiny": (2, 2, 64, 64, 512),
    "124m": (12, 12, 768, 1024, 50304),
    "355m": (24, 16, 1024, 1024, 50304),
}
LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = SHAPES[os.environ.get("WORKLOAD_SIZE", "124m")]

tokens_per_sample = CONTEXT
clip_norm = 1.0
target = {"samples": 480 * 10_000, "global_batch_size": 480}  # nanoGPT's: 12 x 40 sequences


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.feed_forward = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.queries_keys_values(self.norm_1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed_forward(self.norm_2(x))


class GPT2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for one in (self.tokens, self.positions):
            nn.init.normal_(one.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def model() -> nn.Module:
    return GPT2()


def batch(size: int) -> torch.Tensor:
    return tokens(size, CONTEXT, VOCABULARY)


loss = next_token_loss


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
