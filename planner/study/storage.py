"""Optuna storages by URL, and what a database throws as one error that says where and what to do."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import platformdirs

from planner.errors import PlannerError
from planner.redaction import password_of, redacted, redacted_url

if TYPE_CHECKING:
    import optuna

_SQLITE = "sqlite:///"
_OPENING_TRIES, _OPENING_PAUSE_S = 20, 0.25
_UNWRITABLE = ("readonly", "read-only", "permission", "unable to open", "not a dir", "no such", "file exists")


def default_storage_url() -> str:
    """A SQLite file in the user's data directory."""
    return sqlite_url(Path(platformdirs.user_data_dir("planner")) / "studies.db")


def sqlite_url(file: Path) -> str:
    """The Optuna URL of a SQLite file."""
    return f"{_SQLITE}{file}"


def sqlite_file(url: str) -> Path | None:
    """The file behind an Optuna URL; None where another database is."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def open_storage(url: str, *, is_created: bool) -> optuna.storages.BaseStorage:
    """The storage behind an Optuna URL.

    Raises PlannerError when it cannot be used, or when it does not exist and ``is_created`` is False.
    """
    logging.getLogger("optuna").setLevel(logging.ERROR)
    path = sqlite_file(url)
    if path is None:
        _check_url(url)
    elif not is_created and not path.exists():
        raise PlannerError(f"{path}: there is no study yet; run `planner sweep model.py` first")
    try:
        with storage_errors(url):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            return _opened(url)
    except (ImportError, RuntimeError, ValueError) as error:
        # a missing driver; a schema of another Optuna; a URL that none understands
        raise _refused(url, str(error)) from error


def _opened(url: str) -> optuna.storages.BaseStorage:
    """Optuna makes the tables that it does not find: of two processes that begin at once one is late."""
    import optuna
    import sqlalchemy.exc

    for _ in range(_OPENING_TRIES - 1):
        try:
            return optuna.storages.get_storage(url)
        except sqlalchemy.exc.SQLAlchemyError as error:
            is_late = isinstance(error, sqlalchemy.exc.IntegrityError) or "already exists" in str(error)
            if not is_late:
                raise
            time.sleep(_OPENING_PAUSE_S)
    return optuna.storages.get_storage(url)


@contextlib.contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Turn what a database throws into one error that names the storage and the remedy."""
    import optuna
    import sqlalchemy.exc

    try:
        yield
    except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError, sqlite3.Error) as error:
        cause = error.__cause__ if isinstance(error, optuna.exceptions.StorageInternalError) else error
        text = str(getattr(cause, "orig", None) or cause or error).strip().splitlines()[0]
        raise _refused(url, text) from error
    except OSError as error:
        raise _refused(url, str(error)) from error
    except optuna.exceptions.UpdateFinishedTrialError as error:
        raise PlannerError(
            f"storage {redacted_url(url)}: another sweep on the same study ended a trial of this one, "
            "taking its process for dead; everything saved is kept: start this sweep again"
        ) from error


def _check_url(url: str) -> None:
    """Raises PlannerError where SQLAlchemy would take another part for the password, and name the rest."""
    import sqlalchemy

    try:
        is_read = (sqlalchemy.engine.make_url(url).password or "") == unquote(password_of(url))
    except (sqlalchemy.exc.ArgumentError, ValueError):
        is_read = False
    if not is_read:
        raise PlannerError(
            f"storage {redacted_url(url)}: not a URL that SQLAlchemy reads; give one such as "
            "sqlite:///study.db or postgresql://user@host/database, with @ : / ? and spaces of a password as "
            "%40 %3A %2F %3F %20"
        )


def _refused(url: str, text: str) -> PlannerError:
    return PlannerError(f"storage {redacted_url(url)}: {redacted(text, url)}; {_remedy(text)}")


def _remedy(text: str) -> str:
    lowered = text.lower()
    if "full" in lowered or "space" in lowered:
        return "free some space; every trial saved before this one is kept"
    if any(words in lowered for words in _UNWRITABLE):
        return "make it writable, or name another place by --storage sqlite:///PATH"
    if "not a database" in lowered:
        return "the file is something else; name another by --storage sqlite:///PATH"
    if "version" in lowered:
        return "another Optuna wrote it: run `optuna storage upgrade`, or name another --storage"
    return "check that the database answers and that --storage is a URL such as sqlite:///study.db"
