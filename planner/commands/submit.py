"""`planner sweep --submit`: the same sweep as a Ray job, for a client that need not stay connected."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import typer

from planner.cli_values import OutputFlags
from planner.commands.price_table import refreshed_path
from planner.errors import PlannerError
from planner.live import say
from planner.redaction import redacted_url
from planner.study.storage import default_storage_url, sqlite_file, sqlite_url
from planner.study.store import default_study_name
from planner.study.transfer import bring_home, take_along
from trials.api import Job, follow, hash_workload, job_of, submit

_STUDY, _REPORT = "study.db", "planner-report"  # in the job's directory
_SQLITE_BESIDE = ("", "-journal", "-wal", "-shm")  # the file, and what SQLite may keep with it
_NOT_SENT = frozenset({"model", "address", "storage", "out", "json", "submit"})  # mean something else there


def run(
    model: Path, study_name: str | None, address: str | None, context: typer.Context, output: OutputFlags
) -> int:
    """Submit, follow until the job ends, bring study and report home, and give the job's exit code.

    The job works on a copy of the one study, in a file of its own: the URL of the user's storage, which may
    hold a password, stays here, since Ray shows a job's command and environment to all who see the dashboard.
    """
    workload = hash_workload(model)
    argv, files = typed_again(context)
    if "--catalog" not in argv and refreshed_path().exists():
        files["offers.csv"] = refreshed_path()  # the prices in use here
        argv += ["--catalog", "offers.csv"]
    with tempfile.TemporaryDirectory(prefix="planner-study-") as folder:
        files[_STUDY] = Path(folder) / _STUDY
        take_along(_storage(output), workload, study_name or default_study_name(workload), files[_STUDY])
        job = submit(
            address,
            ["sweep", Path(workload.path).name, *argv, "--storage", sqlite_url(Path(_STUDY))],
            workload,
            send=files,
            fetch=(_STUDY, _REPORT),
            leave_out=_of_earlier_sweeps(output),
        )
    for note in job.notes:
        say(note)
    say(f"submitted as job {job.job_id}; it goes on if this client ends. Come back to it by `{_again(job)}`")
    return _bring_home(job, output)


def come_back(job_id: str, address: str | None, output: OutputFlags) -> int:
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


def _bring_home(job: Job, output: OutputFlags) -> int:
    with tempfile.TemporaryDirectory(prefix="planner-results-") as results:
        code = follow(job, into=Path(results), on_line=say)
        _bring_report(Path(results) / _REPORT, output)
        found = Path(results) / _STUDY
        if found.exists():
            try:
                name, count = bring_home(found, _storage(output))
            except PlannerError as error:
                raise PlannerError(f"{error}; then `{_again(job)}` brings the study home") from error
            say(f"study {name}: {count} trial(s) of the job added to {redacted_url(_storage(output))}")
    return code


def _bring_report(found: Path, output: OutputFlags) -> None:
    if not found.exists():
        return
    try:
        shutil.copytree(found, output.out, dirs_exist_ok=True)
    except OSError as error:
        raise PlannerError(f"--out {output.out}: {error}; name a directory that can be written to") from error
    if output.is_json:
        sys.stdout.write((found / "report.json").read_text())
    say(f"written: {output.out}")


def _storage(output: OutputFlags) -> str:
    return output.storage or default_storage_url()


def _of_earlier_sweeps(output: OutputFlags) -> set[Path]:
    """The user's studies and report, which may lie beside the model file."""
    studies = sqlite_file(_storage(output))
    beside = [] if studies is None else [studies.with_name(studies.name + end) for end in _SQLITE_BESIDE]
    return {one.resolve() for one in (output.out, *beside)}


def _again(job: Job) -> str:
    return f"planner job {job.job_id} --address {job.address}"
