"""Frozen dataclasses to JSON and back, checked field by field on the way in."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from planner.errors import PlannerError
from trials.api import RENAMED, updated

Value = TypeVar("Value")

_ADAPTERS: dict[type, TypeAdapter[Any]] = {}  # building one takes milliseconds, using it microseconds


def _adapter(of: type) -> TypeAdapter[Any]:
    if of not in _ADAPTERS:
        _ADAPTERS[of] = TypeAdapter(of)
    return _ADAPTERS[of]


def to_json(value: object) -> str:
    """JSON of a dataclass. Its floats must be finite: a diverged loss is a Failure, not a number."""
    return _adapter(type(value)).dump_json(value).decode()


def from_json(text: str, of: type[Value], *, where: str) -> Value:
    """The dataclass again. Raises PlannerError naming ``where`` and the field when the text does not fit."""
    try:
        if any(f'"{name}"' in text for name in RENAMED):
            text = json.dumps(updated(json.loads(text)))
        value: Value = _adapter(of).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise PlannerError(f"{where}: cannot read {of.__name__}, field {field}: {first['msg']}") from error
    return value
