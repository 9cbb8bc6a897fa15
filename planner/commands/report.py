"""`planner report`: price what a study measured again."""

from __future__ import annotations

from planner.cli_values import OfferFlags, OutputFlags
from planner.commands.answer import publish, report_of, retargeted
from planner.commands.prices import read_prices
from planner.exits import Exit
from planner.study.reading import read_study
from planner.study.storage import default_storage_url
from planner.target import TargetFlags


def run(name: str, flags: TargetFlags, pricing: OfferFlags, output: OutputFlags) -> Exit:
    """Read, price, print."""
    study = read_study(output.storage or default_storage_url(), name)
    target = retargeted(study.target, flags, study.profile, study.workload.path)
    return publish(report_of(study, target, read_prices(pricing)), output)
