"""Batches made once and kept in pinned memory, so that trials measure the model and not its input."""

import functools

import torch


@functools.cache
def tokens(size: int, length: int, vocabulary: int) -> torch.Tensor:
    """``size`` sequences of ``length`` token ids, and one id more for the targets."""
    return _pinned(torch.randint(vocabulary, (size, length + 1)))


@functools.cache
def images(size: int, pixels: int, channels: int = 3) -> torch.Tensor:
    """``size`` square images."""
    return _pinned(torch.randn(size, channels, pixels, pixels))


@functools.cache
def rows(size: int, width: int) -> torch.Tensor:
    """``size`` vectors."""
    return _pinned(torch.randn(size, width))


@functools.cache
def labels(size: int, classes: int, *shape: int) -> torch.Tensor:
    """A class for each sample, or for each place of ``shape`` in it."""
    return _pinned(torch.randint(classes, (size, *shape)))


def _pinned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.pin_memory() if torch.cuda.is_available() else tensor
