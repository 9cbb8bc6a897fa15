"""GPT-2 124M at its published size, to be planned from its trace alone: no GPU and no trial needed.

    planner estimate examples/gpt2_124m.py --budget 500

The batches are synthetic, since only their shapes matter here. The run is the one of nanoGPT and llm.c:
10 billion tokens, half a million tokens in each step (480 sequences of 1,024).
"""

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, WIDTH, CONTEXT = 12, 12, 768, 1024
VOCABULARY = 50304  # 50,257 padded to a multiple of 64, as nanoGPT does

target = {"tokens": 10_000_000_000, "global_batch_size": 480}
tokens_per_sample = CONTEXT
clip_norm = 1.0


class Block(nn.Module):
    """Causal attention and a feed-forward layer, each with its norm and residual."""

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
    """Token and position embeddings, blocks, and logits that share the embedding's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def model() -> nn.Module:
    return GPT2()


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(VOCABULARY, (size, CONTEXT + 1))
    return tokens[:, :-1], tokens[:, 1:]


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    tokens, following = batch
    return functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
