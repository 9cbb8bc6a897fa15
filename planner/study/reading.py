"""A study for those who only read it: straight from a SQLite file, without the second that Optuna takes.

The tables are Optuna's. Only the layout named here is read so; any other, any other database, and whatever
goes wrong is left to Optuna, which knows every layout and says what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from planner.study.saved import SavedStudy, check_schema, found, saved_trial
from planner.study.storage import shown, sqlite_file

KNOWN_LAYOUT = "v3.2.0.a"  # alembic's name of the tables of Optuna 3.2 to 5


def read_study(storage_url: str, name_or_prefix: str) -> SavedStudy:
    """A study by its name or an unambiguous prefix. Raises PlannerError naming what there is."""
    file = sqlite_file(storage_url)
    if file is not None:
        with contextlib.suppress(sqlite3.Error):
            study = _read_sqlite(file, name_or_prefix, shown(storage_url))
            if study is not None:
                return study
    from planner.study.store import load_study

    return load_study(storage_url, name_or_prefix)


def _read_sqlite(file: Path, name_or_prefix: str, where: str) -> SavedStudy | None:
    """None where the file has another layout."""
    address = f"{file.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
        if database.execute("SELECT version_num FROM alembic_version").fetchall() != [(KNOWN_LAYOUT,)]:
            return None
        ids = dict(database.execute("SELECT study_name, study_id FROM studies"))
        name = found(list(ids), name_or_prefix, where)
        attributes = {
            key: json.loads(text)
            for key, text in database.execute(
                "SELECT key, value_json FROM study_user_attributes WHERE study_id = ?", (ids[name],)
            )
        }
        check_schema(name, attributes)
        by_trial: dict[int, dict[str, Any]] = {}
        for number, key, text in database.execute(
            "SELECT number, key, value_json FROM trials JOIN trial_user_attributes USING (trial_id) "
            "WHERE study_id = ? ORDER BY number",
            (ids[name],),
        ):
            by_trial.setdefault(number, {})[key] = json.loads(text)
        trials = [saved_trial(number, values, name) for number, values in by_trial.items()]
        return SavedStudy(name, attributes, [one for one in trials if one is not None])
