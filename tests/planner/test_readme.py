"""What README and docs/reference.md name exists: commands, their flags, files, links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from planner.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs/reference.md"]
COMMANDS: Any = typer.main.get_command(app)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def _flags(command: Any) -> set[str]:
    own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return own.union(*(_flags(inner) for inner in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_flags_exist(page: Path) -> None:
    text = page.read_text()
    assert set(FLAG.findall(text)) <= _flags(COMMANDS) | {"--help"}
    for said in re.findall(r"`planner ([a-z][^`\n]*)`", text):
        command = COMMANDS.commands[said.split()[0]]
        assert set(FLAG.findall(said)) <= _flags(command), said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_file_map_names_what_is_there() -> None:
    top = ROOT
    for line in PAGES[0].read_text().partition("## File map")[2].split("```")[1].splitlines():
        if found := re.match(r"( *)([\w/.]+)  +\S", line):
            place = (top if found[1] else ROOT) / found[2]
            assert place.exists(), line
            top = top if found[1] else place
