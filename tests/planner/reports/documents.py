"""A report's JSON as a test reads it: held against the published schema."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from planner.commands.json_schemas import FOLDER
from planner.reports import to_json
from planner.reports.report import Report


@cache
def validator(command: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((FOLDER / f"{command}.json").read_text(encoding="utf-8")))


def validated(text: str, command: str) -> Any:
    """The document; the test fails where it does not keep to the schema."""
    document = json.loads(text)
    validator(command).validate(document)
    return document


def document_of(report: Report) -> Any:
    return validated(to_json.render(report), "report")
