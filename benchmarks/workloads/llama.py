"""A Llama-style decoder of 1.1 billion parameters at 2,048 tokens: TinyLlama (Zhang et al., 2024).

WORKLOAD_SIZE: tiny or 1b.
"""

import os

import torch
from losses import next_token_loss
from synthetic import tokens
from torch import nn
from torch.nn import functional

SHAPES = {  # layers, heads, key heads, width, hidden width, context, vocabulary
    "tiny": (2, 4, 2, 64, 128, 64, 512),
    "1b": (22, 32, 4, 2048, 5632, 2048, 32000),
}
LAYERS, HEADS, KEY_HEADS, WIDTH, HIDDEN, CONTEXT, VOCABULARY = SHAPES[os.environ.get("WORKLOAD_SIZE", "1b")]
HEAD_WIDTH = WIDTH // HEADS

tokens_per_sample = CONTEXT
clip_norm = 1.0
target = {"samples": 256 * 10_000, "global_batch_size": 256}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, KEY_HEADS * HEAD_WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, KEY_HEADS * HEAD_WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            part(x).unflatten(-1, (-1, HEAD_WIDTH)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        query, key = rotate(query, angles), rotate(key, angles)
        key, value = (one.repeat_interleave(HEADS // KEY_HEADS, 1) for one in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1 = nn.RMSNorm(WIDTH, eps=1e-5)
        self.attention = Attention()
        self.norm_2 = nn.RMSNorm(WIDTH, eps=1e-5)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x), angles)
        y = self.norm_2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        frequencies = 10_000 ** (-torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
        self.register_buffer("angles", torch.outer(torch.arange(CONTEXT), frequencies))
        for one in self.parameters():
            if one.dim() > 1:
                nn.init.normal_(one, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.angles)
        return self.head(self.norm(x))


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of (batch, heads, length, width)."""
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x.chunk(2, dim=-1)
    return torch.cat((even * cosine - odd * sine, odd * cosine + even * sine), dim=-1)


def model() -> nn.Module:
    return Llama()


def batch(size: int) -> torch.Tensor:
    return tokens(size, CONTEXT, VOCABULARY)


loss = next_token_loss


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=4e-4, betas=(0.9, 0.95), weight_decay=0.1)
