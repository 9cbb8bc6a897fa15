"""One study taken from its storage to a SQLite file and back: what a sweep elsewhere starts from and found.

So that sweep needs no way to the user's storage, and sees nothing of it but its own study.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from optuna.trial import FrozenTrial

from planner.errors import PlannerError
from planner.redaction import redacted_url
from planner.study.holder import PREFIX
from planner.study.listing import study_names
from planner.study.saved import FAILURE, MEASUREMENT
from planner.study.storage import sqlite_url, storage_errors
from planner.study.store import Study, load_study, open_study
from trials.api import Workload

_OF_ITS_PLACE = frozenset({"workload", "schema_version", "space_version"})  # each copy has these already


def take_along(storage_url: str, workload: Workload, name: str, file: Path) -> None:
    """Write the workload's study, with what it holds already, to the new SQLite ``file``.

    Raises PlannerError when the storage cannot be used or the study is another workload's.
    """
    copy = open_study(sqlite_url(file), workload, name)
    if name in study_names(storage_url):
        _add(open_study(storage_url, workload, name), copy)


def bring_home(file: Path, storage_url: str) -> tuple[str, int]:
    """Add what the study in ``file`` found to the one of that name in the storage, made if there is none.

    Returns:
        The study's name, and how many trials were new. Bringing the same file again adds nothing.

    Raises:
        PlannerError: when ``file`` holds no study, or the storage cannot take what it holds.
    """
    names = study_names(sqlite_url(file))
    if len(names) != 1:
        raise PlannerError(f"{file}: {len(names) or 'no'} study where one should be; was it made by a sweep?")
    found = load_study(sqlite_url(file), names[0])
    return names[0], _add(found, open_study(storage_url, found.workload, names[0]))


def _add(source: Study, target: Study) -> int:
    """The number of trials with an outcome that ``target`` did not have."""
    with storage_errors(source.storage_url):
        trials = source.optuna_study.get_trials(deepcopy=False)
        attributes = source.optuna_study.user_attrs
    with storage_errors(target.storage_url):
        here = target.optuna_study.get_trials(deepcopy=False)
        for key, value in attributes.items():
            if key not in _OF_ITS_PLACE and not key.startswith(PREFIX):
                target.optuna_study.set_user_attr(key, value)
    known = Counter(map(_outcome, here))
    new, refused = 0, []
    for trial in trials:
        outcome = _outcome(trial)
        if known[outcome] > 0:
            known[outcome] -= 1
        elif outcome is not None:
            unknown = target.add(trial)
            new += not unknown
            refused += [unknown] if unknown else []
    if refused:
        raise PlannerError(
            f"{redacted_url(target.storage_url)}: {len(refused)} of {new + len(refused)} trials could not be "
            f"added, since study {target.name} was made with a catalog or by a planner that has no "
            f"{refused[0]}; name another place for them by --storage sqlite:///PATH"
        )
    return new


def _outcome(trial: FrozenTrial) -> str | None:
    """What tells a trial from any other, since it holds raw times; None before it has ended."""
    text = trial.user_attrs.get(MEASUREMENT) or trial.user_attrs.get(FAILURE)
    return None if text is None else str(text)
