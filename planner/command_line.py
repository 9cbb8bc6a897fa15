"""Commands whose parameters are groups of flags: typer is told the flags, the command gets the values."""

from __future__ import annotations

import dataclasses
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import MISSING
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from planner.flags import Flag, flags_of

T = TypeVar("T")
_UNBROKEN = "\u2011"  # a hyphen at which no line is broken, until the help is written
_SENTENCE = 200  # characters of what a command does


def grouped(*without: str, extra: Iterable[Flag] = ()) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """The command with the flags of its groups, which are its parameters that are dataclasses.

    A flag of an earlier group with the same name goes before a later one's, which keeps its default; so do
    the fields named in ``without``. Flags in ``extra`` are handed over by name, as a mapping, to a parameter
    ``extra``.
    """

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        groups: dict[str, Any] = {
            name: kind for name, kind in get_type_hints(command).items() if dataclasses.is_dataclass(kind)
        }
        owners: dict[str, tuple[str, Flag]] = {one.parameter: ("extra", one) for one in extra}
        for name, group in groups.items():
            for one in flags_of(group):
                if one.field not in without:
                    owners.setdefault(one.parameter, (name, one))

        def typed(**typed_values: Any) -> T:
            values: dict[str, dict[str, Any]] = defaultdict(dict)
            context = {name: value for name, value in typed_values.items() if name not in owners}
            for parameter, (name, one) in owners.items():
                text = typed_values.get(parameter)
                if text is not None:
                    values[name][one.field] = one.value(text)
            made = {name: group(**values[name]) for name, group in groups.items()}
            return command(**context, **made, **({"extra": values["extra"]} if extra else {}))

        parameters = [_parameter(one) for _, one in owners.values()]
        if "context" in inspect.signature(command).parameters:
            parameters.insert(0, _keyword("context", typer.Context))
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        typed.__annotations__ = {one.name: one.annotation for one in parameters}
        typed.__name__, typed.__doc__ = command.__name__, command.__doc__
        return typed

    return decorate


class PlainCommand(TyperCommand):
    """A command whose help shows the names of flags whole, under the headings of their panels."""

    def get_help(self, ctx: Any) -> str:
        """The help, in which no name is broken at a hyphen."""
        return str(super().get_help(ctx)).replace(_UNBROKEN, "-")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options, a list for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panel = getattr(parameter, "rich_help_panel", None) or usual
                panels.setdefault(panel, []).append((record[0], record[1].replace("-", _UNBROKEN)))
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class PlainGroup(TyperGroup, PlainCommand):
    """The same with subcommands, each with the whole sentence that says what it does."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Options, then commands."""
        PlainCommand.format_options(self, ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, str(self.commands[name].get_short_help_str(_SENTENCE)))
                    for name in self.list_commands(ctx)
                ]
            )


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _parameter(one: Flag) -> inspect.Parameter:
    """The parameter that typer reads: a text, a path or a switch; the flag's kind reads what it means."""
    kind: Any = list[str] if one.kind.is_list else one.kind.typed
    if one.is_argument:
        annotation = Annotated[kind, typer.Argument(help=one.help, metavar=one.metavar, show_default=False)]
        return _keyword(one.parameter, annotation)
    option = typer.Option(
        one.name,
        help=one.help,
        metavar=one.metavar or None,
        show_default=one.shown or True,
        rich_help_panel=one.panel,
        envvar=one.envvar,
    )
    if one.default is MISSING:
        return _keyword(one.parameter, Annotated[kind, option])
    if one.kind.is_list or one.default is None:
        return _keyword(one.parameter, Annotated[kind | None, option], None)
    default = one.kind.show(one.default) if one.kind.typed is str else one.default
    return _keyword(one.parameter, Annotated[kind, option], default)
