"""Texts of very different lengths, padded to the longest of their batch: most are short, a few are long.

What an ordinary batch needs says little of the worst one here; a confirmation meets it.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

SAMPLES, VOCABULARY, WIDTH = 4096, 256, 64
LONGEST = 192

target = {"epochs": 10, "global_batch_size": 256}


class Texts(Dataset):
    """Tokens and a label; lengths are log-normal around 24."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(0)
        lengths = torch.empty(SAMPLES).log_normal_(3.2, 0.5, generator=draw)
        self.lengths = lengths.int().clamp(4, LONGEST).tolist()

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        tokens = torch.arange(self.lengths[index]) * (index + 1) % (VOCABULARY - 1) + 1
        return tokens, index % 4


class Classifier(nn.Module):
    """Embedding, two convolutions along the text, and the mean over it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.layers = nn.Sequential(
            nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.ReLU()
        )
        self.last = nn.Linear(WIDTH, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(self.tokens(tokens).transpose(1, 2)).mean(2))


def model() -> nn.Module:
    return Classifier()


def dataset() -> Dataset:
    return Texts()


def collate(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, labels = zip(*samples, strict=True)
    return pad_sequence(list(tokens), batch_first=True), torch.tensor(labels)


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    tokens, labels = batch
    return functional.cross_entropy(model(tokens), labels)
