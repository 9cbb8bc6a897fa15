"""A step made of fake tensors: built under them, or built for real and then made fake."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._pytree import tree_map_only

from trials.errors import TrialsError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A step ready to run: ``module(batch)`` returns the loss (or, in inference, anything)."""

    module: nn.Module
    optimizer: torch.optim.Optimizer | None  # None where only gradients or a forward pass are traced
    batch: Any
    clip_norm: float | None = None


def build_fake(build: Callable[[], Built], fake: FakeTensorMode) -> Built:
    """What ``build`` makes under ``fake``, which is on. So a large model takes no memory.

    A model that reads weights or NumPy arrays cannot be built like that: it is built for real, in full, and
    its parameters, buffers and batch are replaced by fake ones.
    """
    try:
        with _conversions():
            built = build()
    except Unsupported:
        raise
    except Exception:  # noqa: BLE001  (the user's code: whatever stops it under fake tensors, try it for real)
        with unset_fake_temporarily():
            built = _build_real(build)
    replaced = _replace_tensors(built.module, fake)
    for group in [] if built.optimizer is None else built.optimizer.param_groups:
        group["params"] = [replaced.get(id(one), one) for one in group["params"]]
    return replace(built, batch=tree_map_only(torch.Tensor, lambda one: _fake(one, fake), built.batch))


@contextmanager
def _conversions() -> Iterator[None]:
    """Lets a module of fake tensors be converted (``.to(torch.bfloat16)``, ``.half()``, ``.cuda()``).

    torch swaps the contents of fake parameters, which their mode's weak references forbid; here each
    parameter is replaced instead, a shared one by the same everywhere.
    """
    before = nn.Module._apply

    def apply(
        module: nn.Module,
        fn: Callable[[torch.Tensor], torch.Tensor],
        recurse: bool = True,  # noqa: FBT001 - torch's
    ) -> nn.Module:
        replaced: dict[int, nn.Parameter] = {}
        for part in module.modules() if recurse else (module,):
            for name, parameter in part._parameters.items():
                if parameter is None:
                    continue
                if id(parameter) not in replaced:
                    with torch.no_grad():
                        new = nn.Parameter(fn(parameter), parameter.requires_grad)
                    replaced[id(parameter)] = replaced[id(new)] = new
                part._parameters[name] = replaced[id(parameter)]
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = fn(buffer)
        return module

    nn.Module._apply = apply  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module._apply = before  # type: ignore[method-assign]


def _build_real(build: Callable[[], Built]) -> Built:
    try:
        return build()
    except (TrialsError, Unsupported):
        raise
    except Exception as error:
        raise TrialsError(f"the model cannot be built: {type(error).__name__}: {error}") from error


def _replace_tensors(module: nn.Module, fake: FakeTensorMode) -> dict[int, torch.Tensor]:
    """Put fake tensors in the place of real parameters and buffers; by identity, what took whose place."""
    replaced: dict[int, torch.Tensor] = {}
    kept = []  # so that no identity comes up twice
    for part in module.modules():
        for store in (part._parameters, part._buffers):
            for name, tensor in store.items():
                if tensor is None or isinstance(tensor, FakeTensor):
                    continue
                kept.append(tensor)
                store[name] = replaced.setdefault(id(tensor), _fake(tensor, fake))  # type: ignore[assignment]
    return replaced


def _fake(tensor: torch.Tensor, fake: FakeTensorMode) -> torch.Tensor:
    return tensor if isinstance(tensor, FakeTensor) else fake.from_tensor(tensor)
