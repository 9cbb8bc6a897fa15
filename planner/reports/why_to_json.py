"""Why not that GPU, for machines: keys as in report.json, base units, null for unknown."""

from __future__ import annotations

import json
from collections.abc import Sequence

from planner.plans.why_not import WhyNot
from planner.reports.plans_to_json import plan_row
from planner.reports.to_json import SCHEMA_VERSION


def render(found: WhyNot, study: str, lines: Sequence[str]) -> str:
    """JSON text, indented. ``lines`` is the same in words."""
    least = found.too_small
    document = {
        "schema_version": SCHEMA_VERSION,
        "study": study,
        "device": found.gpu,
        "is_winner": found.is_winner,
        "explanation": list(lines),
        "best": None if found.best is None else plan_row(found.best),
        "plan": None if found.plan is None else plan_row(found.plan),
        "wins_at_price_usd_per_hour": found.price_usd_per_hour,
        "wins_at_speed_ratio": found.speedup,
        "speed_ratio_of_interval": found.speedup_of_interval,
        "is_speed_within_interval": None if found.speedup is None else found.is_speedup_within_interval,
        "scaling_fraction": found.scaling_fraction,
        "scaling_needed_fraction": found.scaling_needed_fraction,
        "offer_count": found.offer_count,
        "left_out": [{"reason": one.reason, "offer_count": one.offer_count} for one in found.left_out],
        "least_memory": least and {"needed_bytes": least.needed_bytes, "memory_bytes": least.memory_bytes},
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
