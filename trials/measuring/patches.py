"""Undoes monkey-patches: what a model file puts in place of functions and classes of torch and of Python.

Only callables (and properties) are watched, so that counters and caches stay as they are. Attributes added to
a class are taken off again, since one may hide what it inherits; those added to a module hide nothing.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import random
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import torch
import torch.distributed
import torch.utils.checkpoint
import torch.utils.data

_MODULES = (
    torch, torch.amp, torch.autograd, torch.cuda, torch.distributed, torch.nn, torch.nn.functional,
    torch.nn.init, torch.nn.parallel, torch.nn.utils, torch.optim, torch.optim.lr_scheduler, torch.random,
    torch.utils.checkpoint, torch.utils.data, builtins, random, time,
)  # fmt: skip
_KEPT = frozenset({"__abstractmethods__", "_abc_impl", "__annotations__", "__annotations_cache__", "__doc__"})


def patch_undoer() -> Callable[[], tuple[str, ...]]:
    """Remember what there is now: a function that puts it back, and names what it had to put back."""
    importlib.import_module("torch._dynamo")  # it wraps functions of torch as it loads, in the first step

    modules = {module: dict(vars(module)) for module in _MODULES}
    classes = {one: dict(vars(one)) for one in _classes()}

    def undo() -> tuple[str, ...]:
        undone = [name for module, before in modules.items() for name in _undo_module(module, before)]
        undone += [name for one, before in classes.items() for name in _undo_class(one, before)]
        return tuple(undone)

    return undo


def _classes() -> Iterator[type]:
    """Python classes that torch's modules name, each once; those of C cannot be patched."""
    found = {
        value: None
        for module in (
            torch,
            torch.nn,
            torch.nn.parallel,
            torch.optim,
            torch.optim.lr_scheduler,
            torch.utils.data,
        )
        for value in vars(module).values()
        if inspect.isclass(value)
        and value.__module__.startswith("torch.")
        and value.__flags__ & _IS_HEAP_TYPE
    }
    yield from dict.fromkeys([torch.Tensor, torch.nn.Module, torch.optim.Optimizer, *found])


_IS_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def _is_watched(value: object) -> bool:
    return callable(value) or isinstance(value, property | staticmethod | classmethod)


def _undo_module(module: ModuleType, before: dict[str, object]) -> Iterator[str]:
    now = vars(module)
    for name, value in before.items():
        if now.get(name) is not value and _is_watched(value):
            setattr(module, name, value)
            yield f"{module.__name__}.{name}"


def _undo_class(owner: type, before: dict[str, object]) -> Iterator[str]:
    now = dict(vars(owner))
    for name in now.keys() - before.keys() - _KEPT:
        if _is_watched(now[name]):
            delattr(owner, name)
            yield f"{owner.__qualname__}.{name}"
    for name, value in before.items():
        if now.get(name) is not value and _is_watched(value) and name not in _KEPT:
            setattr(owner, name, value)
            yield f"{owner.__qualname__}.{name}"
