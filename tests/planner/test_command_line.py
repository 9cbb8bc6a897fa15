"""A flag is said once: command line, help and the echo in JSON follow from the field that holds its value."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import MISSING, dataclass
from typing import Any

import pytest
import typer
import typer.main
import typer.testing

from planner import cli_values
from planner.cli import app
from planner.command_line import PlainCommand, grouped
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.errors import PlannerError
from planner.flags import MINUTES, Flag, echo, flag, flags_of
from planner.target import TargetFlags

GROUPS = (
    *(one for name, one in vars(cli_values).items() if name.endswith("Flags") and isinstance(one, type)),
    CostAssumptions,
)
FLAGS = {one.name: one for group in GROUPS for one in flags_of(group)}
COMMANDS: Any = typer.main.get_command(app)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreAssumptions(CostAssumptions):
    licence_s: float = flag("--licence-minutes", MINUTES, "Until the licence is there.", default=120.0)


@pytest.mark.parametrize("one", FLAGS.values(), ids=FLAGS)
def test_a_default_is_shown_as_a_text_that_is_read_as_it(one: Flag) -> None:
    assert one.help[-1] in ".)?", one.help
    if (
        one.default is not MISSING
        and one.default is not None
        and one.kind.typed is str
        and not one.kind.is_list
    ):
        assert one.value(one.kind.show(one.default)) == one.default


@pytest.mark.parametrize("name", COMMANDS.commands)
def test_a_help_shows_whole_names_at_80_columns(name: str) -> None:
    said = typer.testing.CliRunner().invoke(app, [name, "--help"], terminal_width=80).output
    assert max(map(len, said.splitlines())) <= 80
    context = COMMANDS.commands[name].make_context(name, [], resilient_parsing=True)
    names = {name for one in COMMANDS.commands[name].get_params(context) for name in one.opts}
    assert names
    for flag_name in names:
        assert re.search(rf"(^|\s){re.escape(flag_name)}\b", said) or not flag_name.startswith("-")
    assert not re.search(r"--[a-z-]*-$", said, re.MULTILINE)
    assert "…" not in said


def test_a_flag_of_the_bill_is_one_declaration_and_the_place_that_uses_it() -> None:
    """Declared here alone, a new assumption is a flag with a help, a default, a unit and an echo."""
    found: list[MoreAssumptions] = []
    own = typer.Typer(rich_markup_mode=None)

    @own.command(cls=PlainCommand)
    @grouped()
    def run(assumptions: MoreAssumptions) -> None:
        found.append(assumptions)

    runner = typer.testing.CliRunner()
    assert runner.invoke(own, ["--licence-minutes", "1h"]).exit_code == 0
    assert found[0].licence_s == 3600.0
    assert echo(found[0])["licence_s"] == 3600.0
    said = runner.invoke(own, ["--help"], terminal_width=80).output
    assert re.search(r"--licence-minutes MINUTES\s+Until the licence is there\.\s+\[default:\s+2\]", said)
    assert isinstance(runner.invoke(own, ["--licence-minutes", "soon"]).exception, PlannerError)


def test_the_echo_has_every_flag_by_its_field_in_base_units() -> None:
    said = echo(CostAssumptions(set_up_s=60.0, data_bytes=10))
    assert (said["set_up_s"], said["data_bytes"], said["spot_wait_s"]) == (60.0, 10, 1800.0)
    assert "start_up_s" not in said  # measured, not stated
    json.dumps(echo(cli_values.SweepFlags(model=cli_values.Path("m.py"))))


def test_a_value_that_cannot_be_read_is_told_with_flag_text_and_what_is_right() -> None:
    samples = next(one for one in flags_of(TargetFlags) if one.field == "samples")
    with pytest.raises(PlannerError, match=r"--samples 300Q: not a number; .* 300, 2k, 1\.5M, 300B"):
        samples.value("300Q")


def test_the_shell_completes_flags() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "planner"],
        env=os.environ
        | {"_PLANNER_COMPLETE": "complete_bash", "COMP_WORDS": "planner sweep --bud", "COMP_CWORD": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["--budget"]


def test_a_help_loads_nothing_that_is_slow_to_load() -> None:
    code = (
        "import sys, planner.cli; print({'torch', 'ray', 'optuna', 'numpy', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
