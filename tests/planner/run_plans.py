"""A plan as a run carries it, for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from planner.estimate.values import Basis, Estimate
from planner.verify.run_plan import SCHEMA_VERSION, RunPlan
from tests.builders import make_config, make_offer, make_target


def make_run_plan(**changes: Any) -> RunPlan:
    """36,000 steps of half a second, give or take 5%, on one L4 at $0.72 an hour: 5 h 5 min, $3.66."""
    figures: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "study": "gpt-01234567",
        "rank": 1,
        "model_file": "gpt.py",
        "sha256": "0123456789abcdef" * 4,
        "config": make_config(),
        "is_cpu": False,
        "target": make_target(samples=36_000 * 32, budget_usd=None),
        "confidence": 0.9,
        "step_time_s": Estimate(low=0.475, expected=0.5, high=0.525, basis=Basis.MEASURED),
        "duration_s": Estimate(low=17_400.0, expected=18_300.0, high=19_200.0, basis=Basis.MEASURED),
        "total_usd": Estimate(low=3.48, expected=3.66, high=3.84, basis=Basis.MEASURED),
        "fixed_usd": 0.0,
        "offer": make_offer(),
        "instance_count": 1,
        "provisioning_s": 300.0,
        "torch_version": "2.8.0",
        "ray_version": "2.55.0",
        "python_version": "3.11.9",
        "planner_version": "0.1.0",
        "written_at": datetime(2025, 6, 2, 14, 3, tzinfo=UTC),
    }
    return RunPlan(**{**figures, **changes})
