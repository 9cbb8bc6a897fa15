"""What the workloads of one kind have in common: the next token, or a class for each image or place in it."""

import torch
from torch import nn
from torch.nn import functional


def next_token_loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Cross entropy of each token after the first."""
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def class_loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Cross entropy of the classes that go with the pixels."""
    pixels, classes = batch
    return functional.cross_entropy(model(pixels), classes)
