"""The published schemas are those of the models, and say of which unit a number is."""

from __future__ import annotations

import json

import pytest
from jsonschema import ValidationError

from planner.commands.json_schemas import COMMANDS, FOLDER, schema_text
from tests.planner.reports.documents import document_of, validator
from tests.planner.reports.studies import make_report


@pytest.mark.parametrize("command", COMMANDS)
def test_the_published_schema_is_that_of_the_models(command: str) -> None:
    published = (FOLDER / f"{command}.json").read_text(encoding="utf-8")
    assert published == schema_text(command), "python -m planner.commands.json_schemas writes them anew"


def test_every_key_of_a_report_is_required_and_a_missing_one_is_found() -> None:
    schema = json.loads(schema_text("report"))
    document = document_of(make_report())
    assert set(schema["required"]) == set(document) == set(schema["properties"])
    del document["plans"][0]["cost_usd"]["high"]
    with pytest.raises(ValidationError, match="'high' is a required property"):
        validator("report").validate(document)
