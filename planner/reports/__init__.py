"""What a study says, as terminal text, HTML, JSON and Markdown.

Each ``to_x`` module has ``render(report) -> str``. Importing this package loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from planner.reports.report import Report


def write_reports(report: Report, out_dir: Path) -> tuple[Path, ...]:
    """Write report.html, report.json and report.md into ``out_dir``, each whole or not at all.

    Raises PlannerError naming the path and the way out when the folder cannot be written to.
    """
    from planner.reports.write import write

    return write(report, out_dir)
