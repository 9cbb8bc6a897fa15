"""Loads the user's model file in a worker and checks the contract.

The file runs as a module of a private name, its directory stands last on ``sys.path``: a folder of the user's
called ``trials`` does not shadow ours.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from trials.errors import TrialsError
from trials.model_file.adapters.lightning import adapt_lightning, uses_lightning
from trials.model_file.adapters.plain import adapt_plain
from trials.model_file.contract import LoadedWorkload, Step, call_user
from trials.model_file.source import CONTRACT, hash_workload
from trials.trial import Workload

__all__ = ["LoadedWorkload", "Step", "hash_workload", "load"]


def load(workload: Workload) -> LoadedWorkload:
    """The workload's file, executed in this process.

    Raises TrialsError, which names the file, the function and the fix; also where the file has changed.
    """
    here = hash_workload(workload.path)
    if here.sha256 != workload.sha256:
        raise TrialsError(
            f"{workload.path}: the file or one it imports has changed since the sweep began, or differs on"
            " this node; start the sweep again"
        )
    module = _execute(Path(workload.path), workload.sha256)
    if uses_lightning(module):
        return adapt_lightning(module, workload)
    if not hasattr(module, "model"):
        raise TrialsError(
            f"{workload.path}: no model(): define a function model() that returns the module to train;"
            f" {CONTRACT}"
        )
    return adapt_plain(module, workload)


def module_name(sha256: str) -> str:
    """The name in ``sys.modules`` under which a workload's file runs."""
    return f"_workload_{sha256[:16]}"


def _execute(file: Path, sha256: str) -> ModuleType:
    name = module_name(sha256)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(file.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    is_writing, sys.dont_write_bytecode = (
        sys.dont_write_bytecode,
        True,
    )  # leave nothing beside the user's file
    sys.modules[name] = module
    try:
        call_user(str(file), "importing the file", spec.loader.exec_module, module)
    except TrialsError:
        sys.modules.pop(name, None)
        raise
    finally:
        sys.dont_write_bytecode = is_writing
    return module
