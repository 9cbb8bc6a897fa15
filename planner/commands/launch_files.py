"""`planner launch-files`: write a plan of a study as files that start it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import planner
from catalogs.gpus import DeviceKind
from planner.cli_values import OfferFlags, OutputFlags
from planner.commands.answer import report_of, retargeted
from planner.commands.prices import Prices, read_prices
from planner.cost.bill.price_run import Pricer
from planner.cost.spot.policy import Policy, PolicyOutcome
from planner.cost.spot.simulation import changeover_reserve_s
from planner.errors import PlannerError
from planner.exits import Exit
from planner.launch.files import OPTIONAL_FILES, LaunchFiles, launch_files
from planner.launch.wheel import PATTERN, running_wheel
from planner.plans.plan import Plan
from planner.plans.renting import policies_for
from planner.redaction import redacted_url
from planner.reports import formats
from planner.reports.labels import configuration, rental
from planner.reports.report import Report
from planner.reports.sections.batch_size import choice_line
from planner.study.reading import read_study
from planner.study.sources import REQUIREMENTS, sources_of
from planner.study.storage import default_storage_url, sqlite_file, sqlite_url
from planner.target import TargetFlags
from planner.verify.run_plan import RunPlan, run_plan_of
from trials.api import Environment


def run(
    study_name: str,
    plan_rank: int | None,
    flags: TargetFlags,
    pricing: OfferFlags,
    output: OutputFlags,
) -> Exit:
    """Price the study again, take the plan of that rank, write the folder and say what is in it."""
    study = read_study(output.storage or default_storage_url(), study_name)
    prices = read_prices(pricing)
    target = retargeted(study.target, flags, study.profile, study.workload.path)
    report = report_of(study, target, prices)
    plan = _plan(report, plan_rank)
    sources = sources_of(study)
    fallback = _fallback(report, plan, prices)
    run_plan = _run_plan(report, plan, prices, fallback)
    files = launch_files(
        run_plan,
        prices.gpus[plan.offer.gpu],
        sources.texts,
        (*_facts(report, plan), *(_falling_back(plan, fallback) if fallback else ())),
        wheel=running_wheel(),
        has_requirements=sources.requirements is not None,
        storage=None if output.storage is None else _from_elsewhere(output.storage),
    )
    directory = output.out
    _write(files, directory, sources.requirements)
    print(f"plan {plan.rank} of study {study.name}: rent {rental(plan)}")
    for note in (*filter(None, [sources.note]), *files.notes):
        print(f"mind: {note}", file=sys.stderr)
    names = ", ".join((*sorted(files.texts), files.wheel.name))
    print(f"written: {directory}/ ({names}); LAUNCH.md says what starts it")
    return Exit.PLAN


def _plan(report: Report, rank: int | None) -> Plan:
    best = report.recommendation.best
    if rank is None and best is not None:
        return best
    plans, rank = report.recommendation.plans, rank or 1
    if not 1 <= rank <= len(plans):
        there = f"the study has plans 1 to {len(plans)}" if plans else "the study has no plan"
        raise PlannerError(f"--plan {rank}: {there}; `planner report {report.study}` lists them")
    return plans[rank - 1]


def _fallback(report: Report, plan: Plan, prices: Prices) -> PolicyOutcome | None:
    """Of a plan on spot that had better fall back to on-demand when the deadline nears; else None."""
    if plan.spot is None:
        return None
    choice = policies_for(plan, prices.admitted, Pricer(report.recommendation.terms))
    if choice is None or choice.chosen.policy is not Policy.SPOT_WITH_FALLBACK:
        return None
    return choice.chosen


def _run_plan(report: Report, plan: Plan, prices: Prices, fallback: PolicyOutcome | None) -> RunPlan:
    answer = report.recommendation
    return run_plan_of(
        plan,
        study=report.study,
        workload=report.workload,
        is_cpu=prices.gpus[plan.offer.gpu].kind is DeviceKind.CPU,
        target=answer.target,
        confidence=answer.confidence,
        provisioning_s=answer.terms.assumptions.provisioning_s,
        environment=_environment(report, plan),
        planner_version=planner.__version__,
        written_at=datetime.now(UTC),
        checkpoint_interval_s=(fallback or plan).checkpoint_interval_s,
    )


def _environment(report: Report, plan: Plan) -> Environment | None:
    """Of the last measurement on the plan's device, else of the last one anywhere."""
    here = [one for one in report.measurements if one.config.gpu == plan.config.gpu]
    found = here or list(report.measurements)
    return found[-1].environment if found else None


def _facts(report: Report, plan: Plan) -> tuple[str, ...]:
    """What the plan states, for the reader of the files."""
    confidence = formats.percent(report.recommendation.confidence)
    return (
        f"Rent {rental(plan)}: {formats.usd_per_hour(plan.price_usd_per_hour)}.",
        f"Configuration: {configuration(plan.config)}.",
        *((choice_line(report.batch),) if report.batch is not None else ()),
        f"CostAssumptions at {confidence} confidence ({plan.basis}): "
        f"{formats.interval(plan.step_time_s, formats.duration)} a step, "
        f"{formats.interval(plan.duration_s, formats.duration)} in all, "
        f"{formats.interval(plan.total_usd, formats.usd)} with the sweep.",
        f"Price as of {formats.day(plan.offer.as_of)}, from {plan.offer.source}.",
    )


def _falling_back(plan: Plan, fallback: PolicyOutcome) -> tuple[str, ...]:
    """Until when spot may be held, since no launcher changes over for a deadline."""
    assert plan.spot is not None
    reserve_s = changeover_reserve_s(plan.spot.job, fallback.checkpoint_interval_s)
    return (
        f"Checkpoints every {formats.duration(fallback.checkpoint_interval_s)}, for spot that falls back to "
        "on-demand when the deadline nears, which suits this run: no launcher does that by itself. As soon "
        f"as the deadline is no further away than the remaining steps and {formats.duration(reserve_s)} "
        "more, start the run again on demand; it goes on from its checkpoint.",
    )


def _from_elsewhere(storage: str) -> str:
    """The URL as a command in another folder needs it; the password stays out of the files."""
    file = sqlite_file(storage)
    return redacted_url(storage) if file is None else sqlite_url(file.resolve())


def _write(files: LaunchFiles, directory: Path, requirements: str | None) -> None:
    try:
        for old in (*(directory / name for name in OPTIONAL_FILES), *directory.glob(PATTERN)):
            old.unlink(missing_ok=True)
        for name, text in files.texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if path.suffix == ".sh":
                path.chmod(0o755)
        (directory / files.wheel.name).write_bytes(files.wheel.contents)
        if requirements is not None:
            (directory / REQUIREMENTS).write_bytes(requirements.encode())
    except OSError as error:
        raise PlannerError(
            f"{directory}: cannot be written to ({error.strerror}); name another folder by --directory"
        ) from error
