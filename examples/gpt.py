"""A GPT-2-style transformer on real text: the language reference that ships with Python, as bytes.

    planner sweep examples/gpt.py --budget 500

Shows the plain contract: model(), dataset(), loss(model, batch), optimizer(parameters), target. One sample is
a window of CONTEXT tokens. SIZE is the knob; "gpt2" has the shape of GPT-2 small.
"""

from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

SIZE = "tiny"  # tiny, small, medium or gpt2

SHAPES = {  # layers, heads, width, context
    "tiny": (4, 4, 128, 128),
    "small": (6, 6, 384, 256),
    "medium": (8, 8, 512, 512),
    "gpt2": (12, 12, 768, 1024),
}
LAYERS, HEADS, WIDTH, CONTEXT = SHAPES[SIZE]
VOCABULARY = 256  # bytes

target = {"tokens": 2_000_000_000, "global_batch_size": 64}
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
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.queries_keys_values(self.norm_1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed_forward(self.norm_2(x))


class GPT(nn.Module):
    """Token and position embeddings, blocks, and logits that share the embedding's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for one in (self.tokens, self.positions):
            nn.init.normal_(one.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


class Windows(Dataset):
    """Every window of CONTEXT bytes of the text, and the bytes that follow each."""

    def __init__(self, text: bytes) -> None:
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    def __len__(self) -> int:
        return (len(self.text) - 1) // CONTEXT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = self.text[index * CONTEXT : (index + 1) * CONTEXT + 1].long()
        return window[:-1], window[1:]


def model() -> nn.Module:
    return GPT()


def dataset() -> Dataset:
    return Windows("\n".join(topics.values()).encode())


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    tokens, following = batch
    return functional.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def optimizer(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
