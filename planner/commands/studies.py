"""`planner studies`: list what the storage holds."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from planner.exits import Exit
from planner.redaction import redacted_url
from planner.study.listing import summaries
from planner.study.storage import default_storage_url


def run(storage: str | None) -> Exit:
    """A line per study, the last used one last."""
    url = storage or default_storage_url()
    table = Table("study", "model file", "trials", "measured", "last trial", box=None, pad_edge=False)
    for one in sorted(summaries(url), key=lambda one: one.last_trial_at or ""):
        table.add_row(
            one.name,
            one.workload_path,
            str(one.trial_count),
            str(one.measurement_count),
            (one.last_trial_at or "never").replace("T", " "),
        )
    Console().print(table if table.row_count else f"no studies in {redacted_url(url)}")
    return Exit.PLAN
