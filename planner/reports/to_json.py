"""The report for machines: the data of every section in one object, one line for each key or item of a list.

Seconds, bytes, dollars and fractions, nothing rounded; null is unknown. An estimate is an object of low,
expected, high and basis. The schema is `schemas/report.json`.
"""

from __future__ import annotations

import json

from planner.reports.report import Report
from planner.reports.sections import sections_of


def render(report: Report) -> str:
    """JSON text: single values first, lists of objects after them."""
    document: dict[str, object] = {}
    for section in sections_of(report):
        document |= section.data.model_dump(mode="json")
    in_order = sorted(document.items(), key=lambda item: isinstance(item[1], list))
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in in_order) + "\n}\n"


def _lines(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(_dumps(one) for one in value) + "\n]"
    return _dumps(value)


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
