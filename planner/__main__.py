"""The `planner` command: run it, and turn what goes wrong into a message and an exit code."""

from __future__ import annotations

import gc
import sys
import traceback

import typer

from catalogs.errors import CatalogError
from planner.cli import app
from planner.errors import PlannerError
from planner.exits import Exit
from planner.interrupts import Interrupted, ending_at_once, heard_by
from planner.redaction import redacted
from trials.api import TrialsError


def main() -> None:
    """The command and its exit code."""
    gc.set_threshold(100_000)  # a report's many values live to its end: looking for cycles finds none
    with heard_by(ending_at_once()):
        code = run(sys.argv[1:])
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """The exit code of a command line; messages go to stderr."""
    try:
        code = app(arguments, prog_name="planner", standalone_mode=False)
    except typer.Abort:
        return Exit.INTERRUPTED
    except KeyboardInterrupt as interrupt:
        print("planner: interrupted; every finished trial is saved", file=sys.stderr)
        return interrupt.exit_code if isinstance(interrupt, Interrupted) else Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.PLAN
    except Exception as error:
        return _failed(error)
    return code if isinstance(code, int) else Exit.PLAN


def _failed(error: Exception) -> int:
    if hasattr(error, "format_message"):  # a flag that the parser refused
        print(f"planner: {redacted(error.format_message())}", file=sys.stderr)
        return Exit.BAD_INPUT
    if isinstance(error, PlannerError | CatalogError | TrialsError):
        print(f"planner: {redacted(str(error))}", file=sys.stderr)
        return Exit.BAD_INPUT
    print(redacted("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    print(
        "planner: this is our fault, not yours; please report it with the lines above. "
        "Every finished trial is saved.",
        file=sys.stderr,
    )
    return Exit.OUR_FAULT


if __name__ == "__main__":
    main()
