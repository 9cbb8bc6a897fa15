"""`planner why`: what would have to change for a GPU type to win."""

from __future__ import annotations

import sys
from functools import partial

from catalogs.gpus import find_gpu
from planner.cli_values import OfferFlags, OutputFlags
from planner.commands.answer import report_of, retargeted
from planner.commands.prices import read_prices
from planner.cost.bill.price_run import Pricer
from planner.exits import Exit
from planner.plans.plan import repriced
from planner.plans.why_not import why_not
from planner.reports.why_gpu import to_json, why_gpu
from planner.study.storage import default_storage_url
from planner.study.store import load_study
from planner.target import TargetFlags


def run(name: str, gpu: str, flags: TargetFlags, pricing: OfferFlags, output: OutputFlags) -> Exit:
    """Print why; NOTHING_FITS where the GPU carries no plan."""
    prices = read_prices(pricing)
    chip = find_gpu(gpu, prices.gpus)
    study = load_study(output.storage or default_storage_url(), name)
    target = retargeted(study.target, flags, study.profile, study.workload.path)
    answer = report_of(study, target, prices).recommendation
    found = why_not(answer, chip.name, prices.considered, partial(repriced, pricer=Pricer(answer.terms)))
    lines = why_gpu(found, answer, chip)
    if output.is_json:
        sys.stdout.write(to_json(found, study.name, lines))
    print("\n".join(lines), file=sys.stderr if output.is_json else sys.stdout)
    return Exit.NOTHING_FITS if found.plan is None else Exit.PLAN
