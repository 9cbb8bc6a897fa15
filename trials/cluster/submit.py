"""Runs a sweep as a Ray job on the cluster (Jobs API), for a client that need not stay connected."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trials.cluster.job import BEGIN, MARK, unpack_lines
from trials.cluster.shipping import folder_name, pack
from trials.errors import TrialsError
from trials.trial import Workload

_POLL_S = 1.0
_SOCKET_LIMIT_S = 5.0
_AGENT_LIMIT_S = 30.0
_OWN_PACKAGES = ("trials", "planner", "catalogs")
_OUR_FAULT = 1
_TALKATIVE = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)
_STOPPING = {"RAY_JOB_STOP_WAIT_TIME_S": "60"}  # from SIGTERM to SIGKILL: Ray's 3 s end no sweep
_STOPPED, _TERMINATED = "STOPPED", 143
_ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
DEFAULT_ADDRESS = "http://127.0.0.1:8265"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A submitted sweep."""

    address: str
    job_id: str
    notes: tuple[str, ...] = ()  # what was not sent, and what to do about it


def submit(
    address: str | None,
    argv: Sequence[str],
    workload: Workload,
    *,
    module: str = "planner",
    send: Mapping[str, Path] | None = None,
    fetch: Sequence[str] = (),
    leave_out: Collection[Path] = (),
    python: str | None = None,
) -> Job:
    """Start ``python -m module *argv`` on the cluster, in a copy of the model file's directory.

    Args:
        address: of the head's dashboard, ``http://head:8265``; None takes RAY_API_SERVER_ADDRESS, then
            this machine.
        argv: arguments; paths in them are relative to the copy, in which the model file has its own name.
        workload: the model file; its directory is sent, and so is our code.
        module: what to run.
        send: further local files, by their name in the copy; those that do not exist are left out.
        fetch: files and directories of the copy that are sent back when the job ends.
        leave_out: files and folders of the directory, absolute, that are not sent.
        python: interpreter on the head; None tries this client's, ``python`` and ``python3``, and takes the
            first that has Ray.

    Raises:
        TrialsError: when the cluster does not take the job, with what to check.
    """
    address = _checked(address)
    client = _client(address)
    with tempfile.TemporaryDirectory(prefix="planner-ship-") as folder:
        shipment = pack(workload, Path(folder), leave_out=leave_out)
        target = Path(folder) / folder_name(workload)
        for name, path in (send or {}).items():
            if path.exists():
                shutil.copyfile(path, target / name)
        root = Path(__file__).parents[2]
        modules = [str(root / name) for name in _OWN_PACKAGES if (root / name).is_dir()]
        job_id = _start(
            client,
            address,
            entrypoint=_entrypoint(folder_name(workload), module, argv, fetch, python),
            runtime_env={"py_modules": [*modules, str(target)], "env_vars": _STOPPING},
        )
    return Job(address=address, job_id=job_id, notes=shipment.notes)


def job_of(address: str | None, job_id: str) -> Job:
    """A job that was submitted before, perhaps by another client.

    Raises:
        TrialsError: when the cluster cannot be asked, or does not know the job.
    """
    job = Job(address=_checked(address), job_id=job_id)
    _ask(job, lambda: _client(job.address).get_job_info(job_id))
    return job


def follow(job: Job, *, into: Path, on_line: Callable[[str], None]) -> int:
    """Hand on the job's output line by line until it ends, write its results to ``into``; its exit code.

    May be called again, from anywhere, for a job that was left: see ``job_of``.
    """
    client = _client(job.address)
    told = 0
    preamble: list[str] | None = []  # Ray's own lines, of interest only when nothing follows
    results: list[str] = []
    while True:
        info = _ask(job, lambda: client.get_job_info(job.job_id))
        lines = _ask(job, lambda: client.get_job_logs(job.job_id)).splitlines(keepends=True)
        has_ended = str(getattr(info.status, "value", info.status)) in _ENDED
        if not has_ended and lines and not lines[-1].endswith("\n"):
            lines.pop()  # still being written
        for line in (one.rstrip("\n") for one in lines[told:]):
            if line == BEGIN:
                preamble = None
            elif line.startswith(MARK):
                results.append(line)
            elif preamble is None:
                on_line(line)
            else:
                preamble.append(line)
        told = len(lines)
        if has_ended:
            break
        time.sleep(_POLL_S)
    for line in preamble or ():
        on_line(line)
    unpack_lines(results, into)
    return _exit_code(info, on_line)


def stop(job: Job) -> None:
    """Ask the cluster to end the job."""
    client = _client(job.address)
    _ask(job, lambda: client.stop_job(job.job_id))


def _exit_code(info: Any, on_line: Callable[[str], None]) -> int:
    """Of a job that has ended."""
    if str(getattr(info.status, "value", info.status)) == _STOPPED:
        on_line("the job was stopped")
        return _TERMINATED
    if info.driver_exit_code is None:
        on_line(f"the job ended without an exit code: {info.message}")
        return _OUR_FAULT
    return int(info.driver_exit_code)


def _start(client: Any, address: str, **request: Any) -> str:
    """Submit; a head that has just started has no agent yet and is asked again."""
    deadline_s = time.monotonic() + _AGENT_LIMIT_S
    while True:
        try:
            return str(client.submit_job(**request))
        except Exception as error:
            if "No available agent" not in str(error) or time.monotonic() > deadline_s:
                reason = f"{address} did not take the job ({_first_line(error)}); {_advice()}"
                raise TrialsError(reason) from error
        time.sleep(_POLL_S)


def _entrypoint(
    folder: str, module: str, argv: Sequence[str], fetch: Sequence[str], python: str | None
) -> str:
    """A shell command. ``python`` on the head's PATH need not be the one with Ray, so each is tried."""
    fetching = [part for name in fetch for part in ("--fetch", name)]
    command = shlex.join(["-m", "trials.cluster.job", *fetching, folder, module, *argv])
    if python is not None:
        return f"{shlex.quote(python)} {command}"
    candidates = " ".join(map(shlex.quote, [sys.executable, "python", "python3"]))
    return (
        f'for p in {candidates}; do "$p" -c "import ray" 2>/dev/null && exec "$p" {command}; done; '
        "echo 'no python with Ray on the PATH of the head node: name it'; exit 2"
    )


def _checked(address: str | None) -> str:
    wanted = address or os.environ.get("RAY_API_SERVER_ADDRESS") or DEFAULT_ADDRESS
    if wanted.startswith("ray://"):
        raise TrialsError(f"{wanted}: a job is submitted to the dashboard, http://HEAD:8265, not by ray://")
    if "://" not in wanted:
        wanted = f"http://{wanted}"
    parts = urlsplit(wanted)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise TrialsError(f"{wanted}: give the address of the dashboard, such as http://10.0.0.5:8265")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=_SOCKET_LIMIT_S).close()
    except OSError as error:
        raise TrialsError(f"{wanted}: nothing answers there ({error}); {_advice()}") from error
    return wanted.rstrip("/")


def _client(address: str) -> Any:
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError as error:
        raise TrialsError("submitting needs Ray's jobs: pip install 'gpu-planner[jobs]'") from error
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)  # they tell of each upload
    try:
        return JobSubmissionClient(address)
    except Exception as error:
        raise TrialsError(
            f"{address}: no Ray dashboard answered ({_first_line(error)}); {_advice()}"
        ) from error


def _ask(job: Job, question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:
        if "does not exist" in str(error):
            raise TrialsError(
                f"{job.address}: no job {job.job_id} there; `ray job list --address {job.address}` lists them"
            ) from error
        raise TrialsError(
            f"{job.address}: job {job.job_id} cannot be followed ({_first_line(error)}); it may still run:"
            f" `planner job {job.job_id} --address {job.address}` takes it up again"
        ) from error


def _advice() -> str:
    return (
        "check that the head was started with its dashboard (ray[default] installed there, port 8265,"
        " reachable from here: --dashboard-host=0.0.0.0 or a tunnel) and that both sides agree on"
        " token authentication (RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH)"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
