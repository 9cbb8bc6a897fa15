"""`planner sweep --submit`: the same sweep as a Ray job, for a client that need not stay connected."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import typer

from planner.commands.price_table import refreshed_path
from planner.errors import PlannerError
from planner.given import Output
from planner.live import say
from planner.study.storage import default_storage_url, sqlite_file, sqlite_url
from trials.cluster.submit import Job, follow, job_of, submit
from trials.model_file.source import hash_workload

_STUDIES, _REPORT = "studies.db", "planner-report"  # in the job's directory
_NOT_SENT = frozenset({"model", "address", "storage", "out", "json", "submit"})  # mean something else there
_SENT_AT = "planner-study-changed-at"  # among the job's metadata


def run(model: Path, address: str | None, context: typer.Context, output: Output) -> int:
    """Submit, follow until the job ends, bring study and report home, and give the job's exit code."""
    workload = hash_workload(model)
    url = output.storage or default_storage_url()
    local = sqlite_file(url)
    argv, files = typed_again(context)
    if "--catalog" not in argv and refreshed_path().exists():
        files["offers.csv"] = refreshed_path()  # the prices in use here
        argv += ["--catalog", "offers.csv"]
    job = submit(
        address,
        ["sweep", Path(workload.path).name, *argv, "--storage", _storage_there(url)],
        workload,
        send=files if local is None else {**files, _STUDIES: local},
        fetch=(_REPORT,) if local is None else (_STUDIES, _REPORT),
        metadata={_SENT_AT: _changed_at(local)},
    )
    for note in job.notes:
        say(note)
    say(
        f"submitted as job {job.job_id}; it goes on if this client ends. Come back to it by "
        f"`planner job {job.job_id} --address {job.address}`"
    )
    return _bring_home(job, output)


def come_back(job_id: str, address: str | None, output: Output) -> int:
    """`planner job`: follow a job that was left, bring its results home, and give its exit code."""
    return _bring_home(job_of(address, job_id), output)


def typed_again(context: typer.Context) -> tuple[list[str], dict[str, Path]]:
    """The flags as the job will read them, and the files they name, by their names in the job's directory."""
    argv: list[str] = []
    files: dict[str, Path] = {}
    for flag in context.command.params:
        source = context.get_parameter_source(str(flag.name))
        if flag.name in _NOT_SENT or source is None or source.name != "COMMANDLINE":
            continue
        given = context.params[str(flag.name)]
        for value in given if isinstance(given, list | tuple) else [given]:
            if isinstance(value, bool):
                argv.append(flag.opts[0] if value else flag.secondary_opts[0])
            elif isinstance(value, Path):
                name = f"given-{flag.name}{value.suffix}"
                files[name] = value
                argv += [flag.opts[0], name]
            else:
                argv += [flag.opts[0], str(value)]
    return argv, files


def _bring_home(job: Job, output: Output) -> int:
    with tempfile.TemporaryDirectory(prefix="planner-results-") as results:
        code = follow(job, into=Path(results), on_line=say)
        local = sqlite_file(output.storage or default_storage_url())
        if local is not None:
            _bring_study(Path(results) / _STUDIES, local, job.metadata.get(_SENT_AT))
        _bring_report(Path(results) / _REPORT, output)
    return code


def _bring_study(found: Path, local: Path, sent_at: str | None) -> None:
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


def _storage_there(url: str) -> str:
    return url if sqlite_file(url) is None else sqlite_url(Path(_STUDIES))


def _changed_at(file: Path | None) -> str:
    return str(file.stat().st_mtime_ns) if file is not None and file.exists() else "absent"
