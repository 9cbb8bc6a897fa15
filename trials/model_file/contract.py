"""What every adapter makes of the user's file: one module from batch to loss, and where batches come from."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from trials.errors import TrialsError
from trials.model_file.loader import DataSource
from trials.profile import TargetHint
from trials.trial import Workload

LossFunction = Callable[[nn.Module, Any], Any]


class Step(nn.Module):
    """The model and its loss as one module, wrapped whole by DDP and FSDP2.

    Wrapping only the model would let ``loss`` reach around the wrapper, and gradients would silently not be
    synchronised.
    """

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Any) -> Tensor:
        """The loss of one micro batch: a scalar tensor."""
        return as_scalar(self._loss(self.model, batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWorkload:
    """The user's file, executed in this process; lives as long as one trial."""

    workload: Workload
    source: DataSource
    hint: TargetHint
    tokens_per_sample: int | None
    clip_norm: float | None
    build: Callable[[], Step]  # a fresh model on the CPU, in training mode
    build_optimizer: Callable[[Step], torch.optim.Optimizer]  # over the step's parameters as they are now
    notes: tuple[str, ...] = ()


def call_model(model: nn.Module, batch: Any) -> Any:
    """The model on a batch, when the file has no ``loss``: mappings by keyword, sequences by position."""
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, list | tuple):
        return model(*batch)
    return model(batch)


def as_scalar(output: Any) -> Tensor:
    """The loss in what the model or ``loss`` gave: a scalar, ``.loss``, ``["loss"]`` or a tuple's first.

    Raises TrialsError for anything but a scalar tensor.
    """
    found = output
    if isinstance(output, Mapping) and "loss" in output:
        found = output["loss"]
    elif not isinstance(output, Tensor) and hasattr(output, "loss"):
        found = output.loss
    elif isinstance(output, list | tuple) and output:
        found = output[0]
    if found is None:
        raise TrialsError(
            "the loss is None: return it from loss(model, batch), or put `labels` into the batch of a"
            " Hugging Face model"
        )
    if not isinstance(found, Tensor):
        raise TrialsError(
            f"the loss is a {type(found).__name__}, not a tensor: return a scalar tensor from"
            " loss(model, batch)"
        )
    if found.numel() != 1:
        raise TrialsError(
            f"the loss has shape {list(found.shape)}, not a scalar: reduce it, for example by .mean()"
            " in loss(model, batch)"
        )
    if not found.is_floating_point():
        raise TrialsError(
            f"the loss has type {found.dtype}, which has no gradient: return a floating-point loss"
        )
    return found if found.ndim == 0 else found.sum()


def call_user(path: str, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user's file; what it raises comes back as a TrialsError naming file and line."""
    try:
        return function(*arguments)
    except TrialsError as error:
        raise TrialsError(f"{path}: {what}: {error}") from error
    except SystemExit as error:
        raise TrialsError(
            f"{path}: {what} called sys.exit({error.code!r}); remove that from the model file"
        ) from error
    except Exception as error:
        where = line_in(path, error)
        line = f", line {where}" if where else ""
        text = f": {error}" if str(error) else ""
        raise TrialsError(f"{path}{line}: {what} raised {type(error).__name__}{text}") from error


def line_in(path: str, error: BaseException) -> int | None:
    """The deepest line of the user's file in the error's traceback."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def read_settings(module: ModuleType, path: str) -> tuple[TargetHint, int | None, float | None]:
    """``target``, ``tokens_per_sample`` and ``clip_norm`` of the file."""
    tokens = _positive(path, "tokens_per_sample", getattr(module, "tokens_per_sample", None))
    clip = _positive(path, "clip_norm", getattr(module, "clip_norm", None))
    return _read_target(module, path), None if tokens is None else int(tokens), clip


def _read_target(module: ModuleType, path: str) -> TargetHint:
    target = getattr(module, "target", None)
    if target is None:
        return TargetHint()
    given = target if isinstance(target, Mapping) else _attributes(target)
    known = [field.name for field in fields(TargetHint)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TrialsError(
            f"{path}: target has unknown entries {', '.join(unknown)}; it may have {', '.join(known)}"
        )
    values = {name: _positive(path, f"target[{name!r}]", given.get(name)) for name in known}
    whole = {name: int(value) for name, value in values.items() if value is not None and name != "epochs"}
    return TargetHint(epochs=values["epochs"], **whole)


def _attributes(target: object) -> dict[str, object]:
    names: Iterable[str] = (name for name in dir(target) if not name.startswith("_"))
    return {name: value for name in names if not callable(value := getattr(target, name))}


def _positive(path: str, name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise TrialsError(f"{path}: {name} is {value!r}; it must be a positive number")
    return value
