"""The report's files, each written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from planner.errors import PlannerError
from planner.reports import to_html, to_json, to_markdown
from planner.reports.report import Report

RENDERERS = {
    "report.html": to_html.render,
    "report.json": to_json.render,
    "report.md": to_markdown.render,
}


def write(report: Report, out_dir: Path) -> tuple[Path, ...]:
    """Write report.html, report.json and report.md into ``out_dir``, made if there is none.

    Raises PlannerError naming the path and the way out when the folder cannot be written to.
    """
    texts = {name: render(report) for name, render in RENDERERS.items()}
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            _replace(out_dir / name, text)
    except OSError as error:
        raise PlannerError(
            f"cannot write the report to {out_dir}: {error.strerror or error}; free some space there, or "
            "name another folder with --out"
        ) from error
    return tuple(out_dir / name for name in texts)


def _replace(path: Path, text: str) -> None:
    """Beside it first, so that a reader, a full disk or a kill never meets half a file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
