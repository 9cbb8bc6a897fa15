"""Model files of plain functions, and those whose model() is a Hugging Face PreTrainedModel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from trials.errors import TrialsError
from trials.model_file.contract import (
    LoadedWorkload,
    LossFunction,
    Step,
    call_model,
    call_user,
    read_settings,
)
from trials.model_file.loader import BatchFunction, DatasetSource, DataSource
from trials.trial import Workload


def adapt_plain(module: ModuleType, workload: Workload) -> LoadedWorkload:
    """The workload of a file with ``model()`` and ``batch(size)`` or ``dataset()``.

    Raises TrialsError where one is missing or is no function.
    """
    path = workload.path
    model = required_function(module, path, "model", "that returns the module to train")
    source = read_source(module, path)
    if source is None:
        raise TrialsError(
            f"{path}: neither batch(size) nor dataset(): define batch(size) that returns one batch of `size`"
            " samples, or dataset() that returns the training set"
        )
    hint, tokens_per_sample, clip_norm = read_settings(module, path)
    return LoadedWorkload(
        workload=workload,
        source=source,
        hint=hint,
        tokens_per_sample=tokens_per_sample,
        clip_norm=clip_norm,
        build=lambda: build_plain(module, path, call_user(path, "model()", model)),
        build_optimizer=optimizer_builder(module, path),
    )


def build_plain(module: ModuleType, path: str, model: object) -> Step:
    """The module that ``model()`` made with the file's ``loss``, else with the loss that it returns."""
    loss: LossFunction = function_or_none(module, path, "loss") or call_model
    return Step(_check_model(model, path), loss).train()


def read_source(module: ModuleType, path: str) -> DataSource | None:
    """``dataset()`` with its ``collate``, else ``batch(size)``, else None."""
    dataset = function_or_none(module, path, "dataset")
    if dataset is not None:
        return _check_dataset(
            call_user(path, "dataset()", dataset), function_or_none(module, path, "collate"), path
        )
    batch = function_or_none(module, path, "batch")
    if batch is None:
        return None
    _check_parameter_count(batch, path, "batch", 1, "batch(size)")
    return BatchFunction(make=batch)


def optimizer_builder(module: ModuleType, path: str) -> Callable[[Step], torch.optim.Optimizer]:
    """The file's ``optimizer(parameters)``, else AdamW with torch's defaults."""
    own = function_or_none(module, path, "optimizer")
    if own is None:
        return lambda step: torch.optim.AdamW(trainable(step))

    def build(step: Step) -> torch.optim.Optimizer:
        made = call_user(path, "optimizer(parameters)", own, trainable(step))
        if not isinstance(made, torch.optim.Optimizer):
            raise TrialsError(
                f"{path}: optimizer(parameters) returned {type(made).__name__}; it must return a"
                " torch.optim.Optimizer"
            )
        return made

    return build


def trainable(step: nn.Module) -> list[nn.Parameter]:
    """The parameters that the optimizer gets."""
    return [one for one in step.parameters() if one.requires_grad]


def function_or_none(module: ModuleType, path: str, name: str) -> Callable[..., Any] | None:
    """The file's function ``name``; None where there is none. Raises TrialsError for what is no function."""
    found = getattr(module, name, None)
    if found is None:
        return None
    if not callable(found):
        raise TrialsError(f"{path}: {name} is a {type(found).__name__}; it must be a function {name}(...)")
    function: Callable[..., Any] = found
    return function


def required_function(module: ModuleType, path: str, name: str, purpose: str) -> Callable[..., Any]:
    """The file's function ``name``. Raises TrialsError, which says what to define, where there is none."""
    found = function_or_none(module, path, name)
    if found is None:
        raise TrialsError(f"{path}: no {name}(): define a function {name}() {purpose}")
    return found


def _check_parameter_count(
    function: Callable[..., Any], path: str, name: str, count: int, usage: str
) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise TrialsError(f"{path}: {name}{signature} cannot be called as {usage}: {error}") from error


def _check_model(model: object, path: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise TrialsError(
            f"{path}: model() returned {type(model).__name__}; it must return a torch.nn.Module"
        )
    if not any(one.requires_grad for one in model.parameters()):
        raise TrialsError(
            f"{path}: model() returned a module without trainable parameters; there is nothing to train"
        )
    return model


def _check_dataset(dataset: Any, collate: Callable[..., Any] | None, path: str) -> DatasetSource:
    if not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__iter__"):
        raise TrialsError(
            f"{path}: dataset() returned {type(dataset).__name__}; it must return a torch Dataset,"
            " a sequence of samples or an iterable of samples"
        )
    source = DatasetSource(dataset=dataset, collate=collate)
    if not source.is_iterable and not hasattr(dataset, "__len__"):
        raise TrialsError(
            f"{path}: dataset() returned {type(dataset).__name__} without __len__; define its length"
        )
    if source.size == 0:
        raise TrialsError(f"{path}: dataset() is empty; it must hold at least one batch")
    return source
