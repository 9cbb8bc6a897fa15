"""Model files that define a LightningModule. Lightning itself does not run: its step, optimizer and data do.

A stand-in trainer answers what a training step usually asks. The data loader is rebuilt for each micro batch
size from the dataset, collate function, workers and order of the user's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import nn
from torch.utils.data import DataLoader, SequentialSampler

from trials.errors import TrialsError
from trials.model_file.adapters.plain import build_plain, optimizer_builder, read_source, required_function
from trials.model_file.contract import LoadedWorkload, Step, call_user, read_settings
from trials.model_file.loader import DatasetSource, DataSource
from trials.trial import Workload

_PACKAGES = ("lightning", "pytorch_lightning")


class StandInTrainer:
    """What ``self.trainer`` answers during a trial: a run at its first step."""

    training = True
    barebones = False
    sanity_checking = False
    is_global_zero = True
    global_step = 0
    current_epoch = 0
    global_rank = 0
    local_rank = 0
    world_size = 1
    accumulate_grad_batches = 1
    max_epochs = 1
    max_steps = 1_000_000
    estimated_stepping_batches = 1_000_000
    num_training_batches = 1_000_000
    logger = None
    loggers = ()
    callbacks = ()
    datamodule = None

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"self.trainer.{name} is not there: a trial runs without Lightning's Trainer")


def uses_lightning(module: ModuleType) -> bool:
    """Whether the file defines a LightningModule, or has one imported for its ``model()``."""
    if hasattr(module, "model"):
        return any(
            isinstance(found, type) and _is_users(found, "LightningModule") for found in vars(module).values()
        )
    return bool(_own_classes(module, "LightningModule"))


def is_lightning(model: nn.Module) -> bool:
    """Whether ``model`` is a LightningModule."""
    return _derives(type(model), "LightningModule")


def adapt_lightning(module: ModuleType, workload: Workload) -> LoadedWorkload:
    """Understand a file that defines one LightningModule, or whose ``model()`` returns one."""
    path = workload.path
    make, name = _maker(module, path)
    hint, tokens_per_sample, clip_norm = read_settings(module, path)

    def build() -> Step:
        made = call_user(path, f"{name}()", make)
        return _lightning_step(made, path) if is_lightning(made) else build_plain(module, path, made)

    build_own = optimizer_builder(module, path)
    return LoadedWorkload(
        workload=workload,
        source=read_source(module, path) or _loader_source(module, make, name, path),
        hint=hint,
        tokens_per_sample=tokens_per_sample,
        clip_norm=clip_norm,
        build=build,
        build_optimizer=lambda step: (
            _lightning_optimizer(step, path) if is_lightning(step.model) else build_own(step)
        ),
        notes=("Lightning's own callbacks, hooks around the step and logging are not part of a trial",),
    )


def _maker(module: ModuleType, path: str) -> tuple[Callable[[], Any], str]:
    """What makes the module to train: ``model()``, or the one LightningModule of the file."""
    if hasattr(module, "model"):
        return required_function(module, path, "model", "that returns the module to train"), "model"
    classes = _own_classes(module, "LightningModule")
    if len(classes) > 1:
        names = ", ".join(one.__name__ for one in classes)
        raise TrialsError(f"{path}: several LightningModules ({names}): define model() that returns one")
    _check_constructor(classes[0], path)
    return classes[0], classes[0].__name__


def _lightning_step(module: Any, path: str) -> Step:
    """A LightningModule as a Step; refuses what Lightning would not optimise by itself."""
    name = type(module).__name__
    if not module.automatic_optimization:
        raise TrialsError(
            f"{path}: {name} sets automatic_optimization = False: its training_step steps the optimizer"
            " itself, so a trial cannot add accumulation, precision or sharding around it; use automatic"
            " optimization"
        )
    call_user(path, f"{name}.setup('fit')", _prepare, module)
    takes_index = len(inspect.signature(module.training_step).parameters) > 1

    def loss(model: nn.Module, batch: Any) -> Any:
        step: Callable[..., Any] = model.training_step  # type: ignore[assignment]
        return step(batch, 0) if takes_index else step(batch)

    return Step(module, loss).train()


def _lightning_optimizer(step: Step, path: str) -> torch.optim.Optimizer:
    """The one optimizer of ``configure_optimizers``; its learning-rate schedule is left out."""
    name = type(step.model).__name__
    made = call_user(path, f"{name}.configure_optimizers()", step.model.configure_optimizers)  # type: ignore[arg-type]
    found = _optimizers(made)
    if len(found) != 1 or not isinstance(found[0], torch.optim.Optimizer):
        raise TrialsError(
            f"{path}: {name}.configure_optimizers() gives {len(found)} optimizers; a trial trains"
            " with exactly one"
        )
    return found[0]


def _optimizers(made: Any) -> list[Any]:
    """The optimizers in the forms that ``configure_optimizers`` may return."""
    if made is None:
        return []
    if isinstance(made, dict):
        return [made["optimizer"]] if "optimizer" in made else []
    if not isinstance(made, list | tuple):
        return [made]
    if made and isinstance(made[0], list | tuple):  # ([optimizers], [schedulers])
        return list(made[0])
    return [inner for one in made for inner in _optimizers(one)]


def _prepare(module: Any) -> None:
    for part in module.modules():
        if _derives(type(part), "LightningModule"):
            part.trainer = StandInTrainer()
            part.log = part.log_dict = _ignore
    module.prepare_data()
    module.setup("fit")
    module.configure_model()


def _ignore(*_: Any, **__: Any) -> None:
    """Stands for self.log: a trial keeps no log."""


def _loader_source(module: ModuleType, make: Callable[[], Any], name: str, path: str) -> DataSource:
    """The training set behind the user's own DataLoader."""
    owners = _own_classes(module, "LightningDataModule")
    if len(owners) > 1:
        raise TrialsError(f"{path}: several DataModules; define dataset() that returns the training set")
    if owners:
        make, name = owners[0], owners[0].__name__
        _check_constructor(owners[0], path)
    owner = call_user(path, f"{name}()", make)
    if not _defines(type(owner), "train_dataloader"):
        raise TrialsError(
            f"{path}: {type(owner).__name__} has no train_dataloader and the file no DataModule; define one"
            " of them, dataset() or batch(size)"
        )
    name = type(owner).__name__
    loader = call_user(path, f"{name}.train_dataloader()", _open_loader, owner)
    if not isinstance(loader, DataLoader):
        raise TrialsError(
            f"{path}: {name}.train_dataloader() returned {type(loader).__name__}; a trial needs one"
            " DataLoader whose batch size it can set, or dataset() in the file"
        )
    if loader.batch_size is None:
        raise TrialsError(
            f"{path}: the DataLoader of {name} makes its batches itself (batch_sampler or"
            " batch_size=None), so its batch size cannot be set; define dataset() with one sample per item"
        )
    return DatasetSource(
        dataset=loader.dataset,
        collate=loader.collate_fn,
        is_shuffled=not isinstance(loader.sampler, SequentialSampler),
        worker_count=loader.num_workers,
    )


def _open_loader(owner: Any) -> Any:
    owner.trainer = StandInTrainer()
    owner.prepare_data()
    owner.setup("fit")
    return owner.train_dataloader()


def _check_constructor(make: type, path: str) -> None:
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise TrialsError(
            f"{path}: {make.__name__} cannot be made without arguments ({error}); give them defaults,"
            " or define model() that returns the module"
        ) from error


def _own_classes(module: ModuleType, base: str) -> list[type]:
    own = [
        found
        for found in vars(module).values()
        if isinstance(found, type) and found.__module__ == module.__name__ and _derives(found, base)
    ]
    return [one for one in own if not any(one in other.__mro__[1:] for other in own)]


def _derives(one: type, base: str) -> bool:
    """Whether a class extends Lightning's ``base``, told by name so that Lightning need not be imported."""
    return any(up.__name__ == base and _is_lightnings(up) for up in one.__mro__)


def _is_users(one: type, base: str) -> bool:
    """Whether a class is the user's extension of Lightning's ``base``."""
    return _derives(one, base) and not _is_lightnings(one)


def _defines(one: type, method: str) -> bool:
    """Whether the user's part of a class defines ``method``; Lightning's own only raises."""
    return any(method in vars(up) for up in one.__mro__ if not _is_lightnings(up))


def _is_lightnings(one: type) -> bool:
    return one.__module__.split(".")[0] in _PACKAGES
