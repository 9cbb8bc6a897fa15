"""What the comparison of loss curves said, in words."""

from __future__ import annotations

from planner.plans.numerics_check import Guard
from planner.reports.labels import technique
from planner.reports.report import Report


def guard_lines(report: Report) -> tuple[str, ...]:
    """One for each comparison."""
    return tuple(guard_line(one) for one in report.guards)


def guard_line(guard: Guard) -> str:
    """Whether the configuration trains as its reference does."""
    name, reference = technique(guard.config), technique(guard.reference)
    if guard.rejection:
        return f"Rejected: {name} does not train as {reference} does; {guard.rejection}."
    count = min(len(guard.losses), len(guard.reference_losses))
    return (
        f"{name} trains as {reference} does: {count} steps over the same samples end at a loss of "
        f"{guard.losses[count - 1]:.4g} and {guard.reference_losses[count - 1]:.4g}."
    )
