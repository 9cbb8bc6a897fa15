"""`planner verify`: hold a real run against the plan that it was launched from."""

from __future__ import annotations

import sys
from pathlib import Path

from planner.cli_values import OfferFlags, OutputFlags, VerifyFlags
from planner.codec import from_json, to_json
from planner.commands.prices import Prices, read_prices
from planner.errors import PlannerError
from planner.exits import Exit
from planner.reports import formats
from planner.study.reading import read_study
from planner.study.sources import at_hand
from planner.study.storage import default_storage_url
from planner.verify.evidence import Evidence, Look
from planner.verify.run_plan import PLAN_FILE, RunPlan, load_run_plan
from planner.verify.words import sentences

LOG_FILE = Path("output") / "log.jsonl"


def run(study_name: str, flags: VerifyFlags, pricing: OfferFlags, output: OutputFlags) -> Exit:
    """Read or measure, judge, say."""
    study = read_study(output.storage or default_storage_url(), study_name)
    run_plan = load_run_plan(flags.directory / PLAN_FILE)
    if run_plan.study != study.name:
        raise PlannerError(
            f"{flags.directory / PLAN_FILE} is a plan of study {run_plan.study}, not of {study.name}; name "
            "the folder of the right one by --directory"
        )
    prices = read_prices(pricing)
    price = _price(run_plan, prices)
    if flags.is_measured:
        from planner.commands.remeasure import remeasure

        with at_hand(study) as workload:
            evidence = remeasure(run_plan, workload, prices, flags)
    else:
        evidence = _logged(run_plan, flags.log or flags.directory / LOG_FILE)
    verdict = evidence.verdict(price)
    lines = [f"plan {run_plan.rank} of study {run_plan.study}", *sentences(verdict, run_plan)]
    if price is None:
        lines.append("The offer is no longer in the catalog: the bill is at the planned price.")
    elif not verdict.is_price_changed:
        lines.append(f"The price is as planned: {formats.usd_per_hour(price)}.")
    if output.is_json:
        sys.stdout.write(to_json(verdict) + "\n")
    print("\n".join(lines), file=sys.stderr if output.is_json else sys.stdout)
    return Exit.OFF_PLAN if verdict.is_off_plan else Exit.PLAN


def _price(run_plan: RunPlan, prices: Prices) -> float | None:
    """What the catalog asks now for all instances; None when it no longer has the offer."""
    now = next((one for one in prices.offers if one.key == run_plan.offer.key), None)
    return None if now is None else now.price_usd_per_hour * run_plan.instance_count


def _logged(run_plan: RunPlan, path: Path) -> Evidence:
    """From the log that the run writes. Its last line may be in the making."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise PlannerError(
            f"{path}: cannot be read ({error.strerror}); name the run's log by --log, or measure again with "
            "--measure"
        ) from error
    evidence = Evidence(run_plan)
    for number, line in enumerate(lines, start=1):
        if line.endswith("\n"):
            evidence.add(from_json(line, Look, where=f"{path}, line {number}"))
    return evidence
