"""Stored values as earlier versions wrote them, in today's form."""

from __future__ import annotations

from typing import Any

RENAMED = {"is_checkpointed": "activation_checkpointing", "is_compiled": "compile"}


def updated(value: Any) -> Any:
    """The same JSON value, in which configurations and traces name their techniques in one field."""
    if isinstance(value, list):
        return [updated(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: updated(one) for key, one in value.items() if key not in RENAMED}
    on = [name for key, name in RENAMED.items() if value.get(key)]
    return {**kept, "techniques": on} if any(key in value for key in RENAMED) else kept
