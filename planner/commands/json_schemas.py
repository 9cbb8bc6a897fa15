"""The published JSON Schemas of what the commands print with --json; run as a module it writes them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from planner import reports
from planner.reports.one_device import OneDeviceJson
from planner.reports.sections import ReportJson
from planner.reports.why_gpu import WhyJson
from planner.verify.evidence import Verdict

FOLDER = Path(reports.__file__).parent / "schemas"
COMMANDS: dict[str, TypeAdapter[Any]] = {
    "report": TypeAdapter(ReportJson),  # of `sweep` as well
    "estimate": TypeAdapter(OneDeviceJson),  # with --gpu; without it that of a report
    "why": TypeAdapter(WhyJson),
    "verify": TypeAdapter(Verdict),
}


def schema_text(command: str) -> str:
    """The schema of a command's JSON, as it stands in the file."""
    schema: dict[str, Any] = COMMANDS[command].json_schema(mode="serialization")
    for name, part in schema.get("$defs", {}).items():
        if not name.endswith("Json"):  # what others say of their own types is no part of the schema
            part.pop("description", None)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(schema, indent=1) + "\n"


def write() -> None:
    """Write every schema into the package."""
    for command in COMMANDS:
        (FOLDER / f"{command}.json").write_text(schema_text(command), encoding="utf-8")


if __name__ == "__main__":
    write()
