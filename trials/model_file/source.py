"""The user's model file as text: which local files belong to it, and the hash that names it. Runs nothing.

The hash covers the file and everything it imports from beside it, so that measurements of different models
are never mixed.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from trials.errors import TrialsError
from trials.trial import Workload

CONTRACT = (
    "a model file defines model() and batch(size) or dataset(), and loss(model, batch) unless the model"
    " returns its loss; or a LightningModule with its train_dataloader or a DataModule"
)


def hash_workload(path: str | Path) -> Workload:
    """The workload of the model file at ``path``, checked for syntax and names without running it.

    Raises TrialsError for a file that is not there or does not parse, and for a missing name.
    """
    file = Path(path).expanduser().resolve()
    tree = _parse(file, _read(file))
    _check_names(file, tree)
    digest = hashlib.sha256()
    for source in local_files(file):
        digest.update(f"{source.relative_to(file.parent).as_posix()}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return Workload(path=str(file), sha256=digest.hexdigest())


def local_files(file: Path) -> tuple[Path, ...]:
    """``file`` and the Python files it imports from its own directory, directly or not, sorted."""
    root = file.parent
    found = {file}
    waiting = [file]
    while waiting:
        one = waiting.pop()
        for name in _imported_names(_parse(one, _read(one)), one, root):
            for local in _files_of(root, name):
                if local not in found:
                    found.add(local)
                    waiting.append(local)
    return tuple(sorted(found))


def _read(file: Path) -> str:
    if not file.exists():
        raise TrialsError(f"{file}: no such file; give the path of your model file")
    if not file.is_file():
        raise TrialsError(
            f"{file}: not a file; give the path of your model file, such as {file.name}/model.py"
        )
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise TrialsError(f"{file}: cannot be read ({error.strerror}); check its permissions") from error
    except UnicodeDecodeError as error:
        raise TrialsError(f"{file}: not a Python source file in UTF-8 ({error.reason})") from error
    if "\0" in text:
        raise TrialsError(f"{file}: not a Python source file (it contains null bytes)")
    return text


def _parse(file: Path, text: str) -> ast.Module:
    try:
        return ast.parse(text, filename=str(file))
    except SyntaxError as error:
        source = (error.text or "").strip()
        line = "" if error.lineno is None else f", line {error.lineno}"
        raise TrialsError(
            f"{file}{line}: syntax error: {error.msg}" + (f": {source}" if source else "")
        ) from error


def _check_names(file: Path, tree: ast.Module) -> None:
    names = set(_bound_names(tree.body))
    has_classes = any(isinstance(node, ast.ClassDef) and node.bases for node in tree.body)
    if "*" in names or (has_classes and "model" not in names):  # loading decides
        return
    if "model" not in names:
        raise TrialsError(
            f"{file}: no model(): define a function model() that returns the module to train; {CONTRACT}"
        )


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from _bound_names(getattr(node, field, []))
            for handler in getattr(node, "handlers", []):
                yield from _bound_names(handler.body)


def _imported_names(tree: ast.Module, file: Path, root: Path) -> Iterator[str]:
    """Dotted names that may be modules beside the model file, relative imports made absolute."""
    package = file.relative_to(root).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            prefix = ".".join((*base, *([node.module] if node.module else [])))
            if prefix:
                yield prefix
            yield from (f"{prefix}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")


def _files_of(root: Path, name: str) -> Iterator[Path]:
    """The files that importing ``name`` runs, where it lies under ``root``."""
    place = root
    for part in name.split("."):
        place = place / part
        if (place / "__init__.py").is_file():
            yield place / "__init__.py"
        elif place.with_suffix(".py").is_file():
            yield place.with_suffix(".py")
        elif not place.is_dir():
            return
