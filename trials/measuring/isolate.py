"""Keeps one trial from changing the next in the same warm process."""

from __future__ import annotations

import gc
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.nn.modules import module as torch_module

from trials.errors import TrialsError
from trials.measuring.leftovers import leftovers_ender
from trials.measuring.patches import patch_undoer
from trials.model_file.source import local_files
from trials.model_file.workload import module_name
from trials.modes.precision import forget_inherited_arithmetic
from trials.trial import Workload

_GLOBAL_HOOKS = tuple(
    name for name in vars(torch_module) if name.startswith("_global_") and name.endswith("_hooks")
)


@contextmanager
def isolated(workload: Workload, threads: int | None) -> Iterator[list[str]]:
    """Run a trial with ``threads`` torch threads and put back what the user's file may have changed.

    Restored: seeds, default type and device, gradient and deterministic modes, matrix precision, backends'
    flags, autocast, threads, module hooks, compiled code, patched functions and classes, environment
    variables, working directory, import path, standard streams, the interpreter's settings, warning filters
    and the user's own modules. Child processes are ended. What cannot be undone is in the list afterwards.
    """
    left: list[str] = []
    undo_patches = patch_undoer()
    end_leftovers = leftovers_ender()
    restore_python = _python_state(workload)
    restore_torch = _torch_state()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield left
    finally:
        undo_patches()  # first: what restores the rest may itself be patched
        restore_torch()
        restore_python()
        left += filter(None, [end_leftovers()])


def _python_state(workload: Workload) -> Callable[[], None]:
    path, folder, environment = list(sys.path), Path.cwd(), dict(os.environ)
    modules = set(sys.modules)
    filters = list(warnings.filters)
    python_seed, numpy_seed = random.getstate(), np.random.get_state()
    streams = sys.stdout, sys.stderr, sys.stdin
    collects, recursion, trace, profile = (
        gc.isenabled(),
        sys.getrecursionlimit(),
        sys.gettrace(),
        sys.getprofile(),
    )

    def restore() -> None:
        sys.settrace(trace)
        sys.setprofile(profile)
        sys.setrecursionlimit(recursion)
        (gc.enable if collects else gc.disable)()
        sys.stdout, sys.stderr, sys.stdin = streams
        sys.path[:] = path
        os.chdir(folder)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        warnings.filters[:] = filters  # type: ignore[index]  # typed as read-only, documented as a list
        _forget_modules(workload, modules)
        random.setstate(python_seed)
        np.random.set_state(numpy_seed)

    return restore


def _forget_modules(workload: Workload, before: set[str]) -> None:
    try:
        own = {str(one) for one in local_files(Path(workload.path))}
    except TrialsError:  # the file is gone or broken: nothing of it was imported
        own = set()
    sys.modules.pop(module_name(workload.sha256), None)
    for name in sys.modules.keys() - before:
        if getattr(sys.modules[name], "__file__", None) in own:
            del sys.modules[name]


def _torch_state() -> Callable[[], None]:
    seed = torch.get_rng_state()
    cuda_seeds = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    device = torch.get_default_device()
    has_gradients, detects_anomaly = torch.is_grad_enabled(), torch.is_anomaly_enabled()
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    matmul = torch.get_float32_matmul_precision()
    cudnn = torch.backends.cudnn
    flags = (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32)
    autocasts = {kind: torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")}
    onednn = torch.backends.mkldnn.enabled
    hooks = {name: dict(getattr(torch_module, name)) for name in _GLOBAL_HOOKS}

    def restore() -> None:
        torch.compiler.reset()
        torch.set_default_dtype(dtype)
        torch.set_default_device(None if device == torch.device("cpu") else device)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(has_gradients)
        torch.set_anomaly_enabled(detects_anomaly)
        torch.use_deterministic_algorithms(is_deterministic, warn_only=only_warns)
        forget_inherited_arithmetic()
        torch.set_float32_matmul_precision(matmul)
        torch.backends.mkldnn.enabled = onednn
        torch.set_flush_denormal(False)
        cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = flags
        for kind, enabled in autocasts.items():
            torch.set_autocast_enabled(kind, enabled)
        for name, content in hooks.items():
            found = getattr(torch_module, name)
            found.clear()
            found.update(content)
        torch.set_rng_state(seed)
        if cuda_seeds:
            torch.cuda.set_rng_state_all(cuda_seeds)

    return restore
