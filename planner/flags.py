"""A flag, said once: with the field that holds its value, as `flag` or `argument`.

The command line (`planner.command_line`), forms and the echo in JSON are made of it. A field holds base
units, as its name says (`provisioning_s`); the flag reads and shows what people write
(`--provisioning-minutes 5`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from planner import quantities
from planner.errors import PlannerError

_KEY = "flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a flag takes: how its text is read, and what a default looks like as text."""

    metavar: str  # "TIME", what stands for the value in a help
    read: Callable[[str], Any] = str  # raises NotReadError
    show: Callable[[Any], str] = "{:g}".format
    typed: type = str  # what the command line hands over: text, a path, or whether a switch was given
    is_list: bool = False  # the flag may be repeated; the field is a tuple


TEXT = Kind(metavar="TEXT", show=str)
TEXTS = Kind(metavar="TEXT", show=str, is_list=True)
FILE = Kind(metavar="PATH", show=str, typed=Path)
SWITCH = Kind(metavar="", show=str, typed=bool)
COUNT = Kind(metavar="N", read=quantities.read_count, show=str)
NUMBER = Kind(metavar="N", read=quantities.read_positive)
NUMBER_OR_ZERO = Kind(metavar="N", read=quantities.read_zero_or_more)
FRACTION = Kind(metavar="SHARE", read=quantities.read_fraction)
USD = Kind(metavar="USD", read=quantities.read_usd)
USD_OR_ZERO = Kind(metavar="USD", read=quantities.read_usd_or_zero)
DURATION = Kind(metavar="TIME", read=quantities.read_duration_s, show=lambda seconds: f"{seconds:g}s")
WAIT = Kind(metavar="TIME", read=quantities.read_wait_s, show=lambda seconds: f"{seconds / 60:g}m")
LIMIT = dataclasses.replace(WAIT, read=quantities.read_duration_s)
MINUTES = Kind(metavar="MINUTES", read=quantities.read_minutes_s, show=lambda seconds: f"{seconds / 60:g}")
SOME_MINUTES = dataclasses.replace(MINUTES, read=quantities.read_some_minutes_s)
GIB = Kind(metavar="GIB", read=quantities.read_bytes, show=lambda size: f"{size / 1024**3:g}")
GIB_PER_S = Kind(metavar="N", read=lambda text: quantities.read_positive(text) * 1024**3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag or argument, as it was said with its field."""

    field: str  # of the class that holds its value
    name: str  # "--provider", "--spot/--no-spot", or "study" of an argument
    kind: Kind
    help: str
    default: Any  # MISSING where it must be given
    shown: str | None  # the default in words, where there is more to say than its value
    panel: str | None  # heading under which it stands in a help
    envvar: str | None
    metavar: str

    @property
    def is_argument(self) -> bool:
        """Given by its place and not by name."""
        return not self.name.startswith("-")

    @property
    def parameter(self) -> str:
        """Its name as a variable: "setup_minutes"."""
        return self.name.partition("/")[0].lstrip("-").replace("-", "_")

    def value(self, text: Any) -> Any:
        """The value of what was typed, in base units. Raises PlannerError saying what is right."""
        if self.kind.typed is not str:
            return text
        if self.kind.is_list:
            return tuple(text)
        try:
            return self.kind.read(text)
        except quantities.NotReadError as error:
            raise PlannerError(f"{self.name} {text}: {error}") from None


def flag(
    name: str,
    kind: Kind,
    help: str,  # noqa: A002 - the word that every command line uses
    *,
    default: Any = None,
    shown: str | None = None,
    panel: str | None = None,
    envvar: str | None = None,
    metavar: str | None = None,
) -> Any:
    """A dataclass field with the flag that sets it.

    Args:
        name: with its dashes; "--spot/--no-spot" for a switch that can be both.
        kind: how its text is read.
        help: one sentence or two.
        default: in base units, as the field holds it; MISSING where it must be given.
        shown: what holds without it, in words, where the default does not say it.
        panel: heading under which it stands in a help; None: the common one.
        envvar: environment variable that is read where the flag is not given.
        metavar: what stands for the value in a help, where the kind's word does not say it.
    """
    said = {
        "name": name,
        "kind": kind,
        "help": help,
        "shown": shown,
        "panel": panel,
        "envvar": envvar,
        "metavar": kind.metavar if metavar is None else metavar,
    }
    if default is MISSING:
        return dataclasses.field(metadata={_KEY: said})
    return dataclasses.field(default=default, metadata={_KEY: said})


def argument(name: str, kind: Kind, help: str, *, metavar: str | None = None) -> Any:  # noqa: A002 - likewise
    """A dataclass field that is given by its place in the command line, and must be."""
    return flag(name, kind, help, default=MISSING, metavar=metavar or name.upper())


def flags_of(group: Any) -> Iterator[Flag]:
    """The flags of a class or of a value of it, in the order of its fields."""
    for field in dataclasses.fields(group):
        if said := field.metadata.get(_KEY):
            yield Flag(field=field.name, default=field.default, **said)


def echo(group: Any) -> dict[str, Any]:
    """What holds, by the names of the fields and in their units, for JSON."""
    values = {flag.field: getattr(group, flag.field) for flag in flags_of(group)}
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
