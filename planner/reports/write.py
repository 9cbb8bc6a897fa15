"""The report's files, each written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from planner.errors import PlannerError
from planner.reports import to_html, to_json, to_markdown
from planner.reports.report import Report
from trials.api import write_whole

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
            write_whole(out_dir / name, text)
    except OSError as error:
        raise PlannerError(
            f"cannot write the report to {out_dir}: {error.strerror or error}; free some space there, or "
            "name another folder with --out"
        ) from error
    return tuple(out_dir / name for name in texts)
