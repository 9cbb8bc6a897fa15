"""`planner sweep --submit`: the same sweep as a Ray job, for a client that need not stay connected."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from planner.errors import PlannerError
from planner.live import say
from planner.options import Output, Pricing, SweepFlags
from planner.storage import default_storage_url
from planner.target import TargetFlags
from trials.cluster.submit import follow, submit
from trials.model_file.source import hash_workload

_SQLITE = "sqlite:///"
_STUDIES, _REPORT, _CATALOG = "studies.db", "planner-report", "catalog.csv"  # in the job's directory


def run(flags: SweepFlags, target: TargetFlags, pricing: Pricing, output: Output) -> int:
    """Submit, follow until the job ends, bring study and report home, and give the job's exit code."""
    workload = hash_workload(flags.model)
    url = output.storage or default_storage_url()
    local = Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None
    send = {_STUDIES: local} if local is not None else {}
    if pricing.catalog is not None:
        send[_CATALOG] = pricing.catalog
    storage = url if local is None else f"{_SQLITE}{_STUDIES}"
    sent_at = _changed_at(local)
    job = submit(
        flags.address,
        ["sweep", Path(workload.path).name, *_arguments(flags, target, pricing), "--storage", storage],
        workload,
        send=send,
        fetch=(_STUDIES, _REPORT) if local is not None else (_REPORT,),
    )
    for note in job.notes:
        say(note)
    say(f"submitted as job {job.job_id}; it goes on if this client ends")
    with tempfile.TemporaryDirectory(prefix="planner-results-") as results:
        code = follow(job, into=Path(results), on_line=say)
        if local is not None:
            _bring_study(Path(results) / _STUDIES, local, sent_at)
        _bring_report(Path(results) / _REPORT, output)
    return code


def _bring_study(found: Path, local: Path, sent_at: float | None) -> None:
    """Replace the local file by what came back, unless somebody wrote to it meanwhile."""
    if not found.exists():
        return
    if _changed_at(local) != sent_at:
        aside = local.with_name(f"{local.stem}-from-job{local.suffix}")
        shutil.copyfile(found, aside)
        say(f"{local} was written to while the job ran, so the job's studies are in {aside}")
        return
    local.parent.mkdir(parents=True, exist_ok=True)
    partial = local.with_name(f".{local.name}.new")
    shutil.copyfile(found, partial)
    partial.replace(local)


def _bring_report(found: Path, output: Output) -> None:
    if not found.exists():
        return
    try:
        shutil.copytree(found, output.out, dirs_exist_ok=True)
    except OSError as error:
        raise PlannerError(f"--out {output.out}: {error}; name a directory that can be written to") from error
    if output.is_json:
        sys.stdout.write((found / "report.json").read_text())
    say(f"written: {output.out}")


def _changed_at(file: Path | None) -> float | None:
    return file.stat().st_mtime if file is not None and file.exists() else None


def _arguments(flags: SweepFlags, target: TargetFlags, pricing: Pricing) -> list[str]:
    """The command line again, as the job will read it."""
    values = {
        "--budget": target.budget_usd,
        "--deadline": None if target.deadline_s is None else f"{target.deadline_s}s",
        "--samples": target.samples,
        "--epochs": target.epochs,
        "--tokens": target.tokens,
        "--global-batch-size": target.global_batch_size,
        "--wait": flags.wait,
        "--max-trials": flags.max_trials,
        "--max-minutes": flags.max_minutes,
        "--sweep-budget": flags.sweep_budget_usd,
        "--study": flags.study,
        "--catalog": None if pricing.catalog is None else _CATALOG,
        "--confidence": pricing.confidence,
        "--provisioning-minutes": pricing.provisioning_s / 60,
    }
    repeated = {
        "--price": pricing.prices,
        "--provider": pricing.providers,
        "--region": pricing.regions,
        "--gpu": pricing.gpus,
    }
    arguments = [part for flag, value in values.items() if value is not None for part in (flag, str(value))]
    arguments += [part for flag, several in repeated.items() for one in several for part in (flag, one)]
    if pricing.is_spot is not None:
        arguments.append("--spot" if pricing.is_spot else "--no-spot")
    if flags.is_compile_allowed is not None:
        arguments.append("--compile" if flags.is_compile_allowed else "--no-compile")
    return arguments
