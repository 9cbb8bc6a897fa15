"""The one module of `trials` that `planner` imports."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from trials import api

ROOT = Path(__file__).parents[2]


def test_the_face_loads_neither_torch_nor_ray() -> None:
    code = "import sys, trials.api; sys.exit(bool({'torch', 'ray', 'optuna', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_every_name_is_there_and_lazy_names_are_the_modules_own() -> None:
    assert all(getattr(api, name) is not None for name in api.__all__)
    assert {name for names in api.LAZY.values() for name in names} <= set(api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'measure'"):
        api.measure  # noqa: B018


def test_what_only_thinks_asks_for_no_lazy_name() -> None:
    """Import-linter sees modules, not names."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (thinking,) = [one for one in contracts if one["name"].startswith("thinking")]
    folders = [ROOT / module.replace(".", "/") for module in thinking["source_modules"]]
    files = [path for folder in folders for path in (*folder.glob("**/*.py"), folder.with_suffix(".py"))]
    lazy = {name for names in api.LAZY.values() for name in names}
    for path in filter(Path.is_file, files):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "trials.api":
                assert not lazy & {alias.name for alias in node.names}, path
