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

from planner.errors import PlannerError
from planner.estimate.other_workloads import OtherWorkload
from planner.redaction import redacted_url
from planner.study.saved import CONFIG, SavedStudy, check_schema, found
from planner.study.storage import sqlite_file, sqlite_url
from trials.api import Measurement

KNOWN_LAYOUT = "v3.2.0.a"  # alembic's name of the tables of Optuna 3.2 to 5


def read_study(storage_url: str, name_or_prefix: str) -> SavedStudy:
    """A study by its name or an unambiguous prefix. Raises PlannerError naming what there is."""
    file = sqlite_file(storage_url)
    if file is not None:
        with contextlib.suppress(sqlite3.Error):
            study = _read_sqlite(file, name_or_prefix, redacted_url(storage_url))
            if study is not None:
                return study
    from planner.study.store import load_study

    return load_study(storage_url, name_or_prefix)


def _read_sqlite(file: Path, name_or_prefix: str, where: str) -> SavedStudy | None:
    """None where the file has another layout."""
    with contextlib.closing(_opened(file)) as database:
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
        check_schema(name, attributes, is_swept=False)
        by_trial: dict[int, dict[str, Any]] = {}
        for number, key, text in database.execute(
            "SELECT number, key, value_json FROM trials JOIN trial_user_attributes USING (trial_id) "
            "WHERE study_id = ? ORDER BY number",
            (ids[name],),
        ):
            by_trial.setdefault(number, {})[key] = json.loads(text)
        return SavedStudy(name, attributes, sqlite_url(file), tuple(by_trial.items()))


def read_peers(study: SavedStudy) -> dict[str, OtherWorkload]:
    """The storage's other studies that ran on two devices or more, by name, as far as they can be read."""
    devices: dict[str, set[str]] = {}
    for name, config in _trial_configs(study.storage_url):
        devices.setdefault(name, set()).add(json.loads(config)["gpu"])
    peers: dict[str, OtherWorkload] = {}
    for name, known in devices.items():
        if name != study.name and len(known) > 1:
            with contextlib.suppress(PlannerError):  # of another version
                other = read_study(study.storage_url, name)
                outcomes = [one.outcome for one in other.trials()]
                measured = [one for one in outcomes if isinstance(one, Measurement)]
                peers[name] = OtherWorkload(measurements=measured, profile=other.profile)
    return peers


def _trial_configs(storage_url: str) -> list[tuple[str, str]]:
    """Name of study and configuration of every trial."""
    file = sqlite_file(storage_url)
    if file is not None:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(_opened(file)) as database:
            rows = database.execute(
                "SELECT study_name, value_json FROM studies JOIN trials USING (study_id) "
                "JOIN trial_user_attributes USING (trial_id) WHERE key = ?",
                (CONFIG,),
            )
            return [(name, json.loads(text)) for name, text in rows]
    from planner.study.listing import trial_configs

    return list(trial_configs(storage_url))


def _opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
