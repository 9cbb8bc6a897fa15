"""What of a directory stays here: hidden files, environments, caches, and what git or Ray ignore.

Later rules win: `.gitignore` from the repository's root down, then what is hidden and the like, then
`.rayignore` from the directory down. So only `.rayignore` can send a hidden file, by a line such as
``!.vocabulary``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pathspec import GitIgnoreSpec

from trials.errors import TrialsError

_NEVER_WANTED = (".*", "venv/", "__pycache__/", "node_modules/")
_NEVER_MISSED = frozenset(  # left out without a word
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", "node_modules", ".ruff_cache", ".mypy_cache"}
    | {".pytest_cache", ".ipynb_checkpoints", ".gitignore", ".gitattributes", ".rayignore", ".DS_Store"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    folder: Path  # to which the patterns are relative
    spec: GitIgnoreSpec


class IgnoreRules:
    """The rules of a directory to be sent."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._repository = next((one for one in (source, *source.parents) if (one / ".git").exists()), source)
        self._rules = cache(self._read_rules)

    def is_ignored(self, path: Path, *, is_folder: bool) -> bool:
        """Whether ``path``, which lies in a folder that is not ignored, stays here.

        Raises TrialsError naming an ignore file that cannot be read.
        """
        is_ignored = False
        for rules in self._rules(path.parent):
            name = path.relative_to(rules.folder).as_posix() + ("/" if is_folder else "")
            said = rules.spec.check_file(name).include
            is_ignored = is_ignored if said is None else said
        return is_ignored

    def is_missed(self, path: Path) -> bool:
        """Whether the user should hear that ``path`` stays here."""
        return path.name not in _NEVER_MISSED

    def _read_rules(self, folder: Path) -> tuple[_Rules, ...]:
        """All that hold for what lies in ``folder``, the last word last."""
        hidden = _Rules(folder=self._source, spec=GitIgnoreSpec.from_lines(_NEVER_WANTED))
        return (
            *_read(".gitignore", self._repository, folder),
            hidden,
            *_read(".rayignore", self._source, folder),
        )


def _read(name: str, top: Path, folder: Path) -> Iterator[_Rules]:
    """The rules of each file of that name between two folders."""
    for place in reversed([folder, *folder.parents]):
        file = place / name
        if place.is_relative_to(top) and file.is_file():
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
                yield _Rules(folder=place, spec=GitIgnoreSpec.from_lines(lines))
            except (OSError, ValueError) as error:
                raise TrialsError(
                    f"{file}: cannot be read ({error}), so nothing was sent; mend it"
                ) from error
