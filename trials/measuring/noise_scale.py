"""Squared gradient norms at two batch sizes, from which the gradient noise scale follows.

McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training" (2018), appendix A.1:
gradients of a small and a large batch at the same parameters tell how much of a gradient is noise. Every draw
takes fresh micro batches; the large batch is their mean. `planner.estimate.noise_scale` says what follows.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trials.extras import GradientDraw, GradientNoise
from trials.measuring.state_file import read_state
from trials.measuring.step import Training

MICRO_BATCHES = 8  # of a draw: the large batch is so many small ones
DRAWS_MIN, DRAWS_MAX = 5, 200
LIMIT_S = 15.0  # after which no further draw is begun


def measure_noise(
    training: Training, micro_batch_size: int, checkpoint: str | None, limit_s: float = LIMIT_S
) -> GradientNoise:
    """Draw gradients of a lone worker's model, at the parameters of ``checkpoint`` or those it has now.

    The mean loss over a batch is assumed. Takes as much memory as a step with accumulation, and the
    parameters once more. Raises ValueError where the checkpoint does not fit the model.
    """
    if checkpoint is not None:
        load_model(training.step.model, Path(checkpoint))
    draws: list[GradientDraw] = []
    begun_s = time.perf_counter()
    while len(draws) < DRAWS_MIN or (len(draws) < DRAWS_MAX and time.perf_counter() - begun_s < limit_s):
        draws.append(_draw(training))
    return GradientNoise(
        small_batch_size=micro_batch_size,
        big_batch_size=micro_batch_size * MICRO_BATCHES,
        draws=tuple(draws),
        checkpoint=checkpoint,
    )


def load_model(model: nn.Module, path: Path) -> None:
    """Put a saved model's parameters into ``model``: of `planner.checkpoint`, or a ``state_dict``.

    Raises ValueError when the file holds none that fits.
    """
    try:
        found: Any = read_state(path)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from error
    for name in ("parts", "model", "model_state_dict", "state_dict"):
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    try:
        model.load_state_dict(found)
    except (RuntimeError, TypeError) as error:
        first = str(error).strip().splitlines()[-1].strip()
        raise ValueError(f"{path}: not a state of this model ({first})") from error


def _draw(training: Training) -> GradientDraw:
    parameters = [one for one in training.module.parameters() if one.requires_grad]
    sums: list[Tensor | None] = [None] * len(parameters)
    squares = []
    for _ in range(MICRO_BATCHES):
        training.backward()
        gradients = [one.grad for one in parameters]
        squares.append(_square(gradients))
        for index, gradient in enumerate(gradients):
            if gradient is not None:
                so_far = sums[index]
                sums[index] = gradient if so_far is None else so_far.add_(gradient)
        for parameter in parameters:
            parameter.grad = None
    big = _square(sums) / MICRO_BATCHES**2
    return GradientDraw(small_square=float(torch.stack(squares).mean()), big_square=float(big))


def _square(tensors: list[Tensor | None]) -> Tensor:
    norms = torch._foreach_norm([one for one in tensors if one is not None])
    return torch.stack([one.double() for one in norms]).square().sum()
