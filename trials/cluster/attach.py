"""Attaches to a Ray cluster, or starts one embedded in this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.cluster.shipping import own_import_path, pack
from trials.errors import TrialsError
from trials.trial import Workload

CONNECT_LIMIT_S = 20.0
_SOCKET_LIMIT_S = 5.0
_OBJECT_STORE_BYTES = 200_000_000  # orders and answers are small; Ray would take a third of the memory
_IN_A_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by Ray for the entrypoint of a submitted job

# Asked of a process that can be ended: ray.init retries for two minutes and cannot be interrupted.
_KNOCK = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).get_all_node_info(timeout=5)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster this process is attached to."""

    address: str  # host:port
    is_embedded: bool
    notes: tuple[str, ...]  # what the user should know, in words


@contextmanager
def attach(
    address: str | None = None,
    workload: Workload | None = None,
    *,
    cpu_count: int | None = None,
    connect_limit_s: float = CONNECT_LIMIT_S,
) -> Iterator[Cluster]:
    """Attach for the duration of a ``with`` block.

    Args:
        address: ``host:port`` of a cluster's head, ``auto`` for the one this machine is a node of; None takes
            RAY_ADDRESS, and without that starts an embedded cluster.
        workload: the model file, whose directory is sent to the nodes of a running cluster.
        cpu_count: of an embedded cluster; None takes every core.
        connect_limit_s: for a head to answer.

    Raises:
        TrialsError: when the cluster cannot be reached, with what to check.
    """
    wanted = address or os.environ.get("RAY_ADDRESS") or None
    if wanted == "local":
        wanted = None
    if wanted is not None:
        _refuse(wanted)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray  # reads its environment when it is imported

    if ray.is_initialized():
        raise TrialsError("this process is attached to a Ray cluster already; call ray.shutdown() first")
    with tempfile.TemporaryDirectory(prefix="planner-ship-") as folder:
        if wanted is None:
            cluster = _start(ray, cpu_count)
        else:
            if wanted != "auto":
                _knock(wanted, connect_limit_s)
            cluster = _join(ray, wanted, workload, folder=Path(folder))
    try:
        yield cluster
    finally:
        ray.shutdown()


def connect_advice(address: str) -> str:
    """What to check when a cluster cannot be reached."""
    host = address.rpartition(":")[0] or "HEAD"
    return (
        "check that `ray status` works there, that the port is the head's own (6379 by default; 10001 is for"
        " ray:// and 8265 for jobs), that this machine is a node of the cluster (elsewhere use --submit with"
        f" --address http://{host}:8265), and that both sides agree on token authentication: RAY_AUTH_MODE="
        "token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH (default ~/.ray/auth_token), or else disabled"
    )


def _refuse(address: str) -> None:
    if address.startswith("ray://"):
        host = address.removeprefix("ray://").rpartition(":")[0] or "HEAD"
        raise TrialsError(
            f"--address {address}: Ray Client (ray://) is not supported: the sweep would end whenever the"
            " connection does, and the model's directory cannot be sent by it. Run the sweep as a Ray job"
            f" (--submit --address http://{host}:8265), or on a node of the cluster (--address {host}:6379)"
        )
    if "://" in address:
        raise TrialsError(f"--address {address}: give host:port of the head or auto; http:// is for --submit")
    port = address.rpartition(":")[2]
    if address != "auto" and not port.isdigit():
        raise TrialsError(f"--address {address}: give host:port, such as 10.0.0.5:6379, or auto")


def _start(ray: Any, cpu_count: int | None) -> Cluster:
    # Ray starts workers at niceness 15: on a machine with anything else to do a CPU trial would time that
    os.environ.setdefault("RAY_worker_niceness", "0")
    path = own_import_path()
    environment = {} if path is None else {"PYTHONPATH": os.pathsep.join([path, *_python_path()])}
    try:
        context = _quietly(
            ray,
            address="local",
            num_cpus=cpu_count,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            runtime_env={"env_vars": environment},
        )
    except Exception as error:
        raise TrialsError(f"Ray could not start on this machine: {_first_line(error)}") from error
    return Cluster(address=context.address_info["gcs_address"], is_embedded=True, notes=())


def _join(ray: Any, address: str, workload: Workload | None, *, folder: Path) -> Cluster:
    notes: tuple[str, ...] = ()
    environment: dict[str, Any] = {}
    if workload is not None and _IN_A_JOB not in os.environ:  # a job's files are there already
        shipment = pack(workload, folder)
        notes = shipment.notes
        environment = {"py_modules": list(shipment.py_modules)}
    try:
        context = _quietly(ray, address=address, runtime_env=environment)
    except Exception as error:
        reason = f"--address {address}: Ray refused the connection ({_first_line(error)})"
        raise TrialsError(f"{reason}; {connect_advice(address)}") from error
    return Cluster(address=context.address_info["gcs_address"], is_embedded=False, notes=notes)


def _knock(address: str, limit_s: float) -> None:
    """Find out within bounded time whether a cluster's head answers at ``address`` and lets us in."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_SOCKET_LIMIT_S).close()
    except (OSError, OverflowError) as error:
        raise TrialsError(
            f"--address {address}: nothing answers there ({error}); {connect_advice(address)}"
        ) from error
    try:
        done = subprocess.run(  # noqa: S603  (our own interpreter, and an address as one argument)
            [sys.executable, "-c", _KNOCK, address],
            capture_output=True, text=True, timeout=limit_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise TrialsError(
            f"--address {address}: something listens there, but no Ray head answered within"
            f" {limit_s:.0f} s; {connect_advice(address)}"
        ) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        what = "the cluster refused the token" if "Auth" in last else "no Ray head answered"
        raise TrialsError(f"--address {address}: {what} ({last[:200]}); {connect_advice(address)}")


def _quietly(ray: Any, **arguments: Any) -> Any:
    """``ray.init`` without a word: stdout and stderr are ours, and so are signals."""
    with warnings.catch_warnings(), _own_signals():
        warnings.simplefilter("ignore")
        context = ray.init(log_to_driver=False, logging_level="ERROR", **arguments)
    _mute_listener()
    return context


@contextmanager
def _own_signals() -> Iterator[None]:
    """Give SIGTERM back to this process's handler, since Ray takes it in Python and in C++.

    What Ray starts meanwhile hears nothing of a terminal that closes: as with Ctrl-C, its driver ends it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if callable(handler):  # a process without one keeps Ray's
            signal.signal(signal.SIGTERM, handler)


def _mute_listener() -> None:
    """End the thread that prints the raylets' messages, such as each lost worker, to our stdout.

    It starts whatever ``log_to_driver`` says; it is ended here as ``ray.shutdown`` does.
    """
    from ray._private.worker import global_worker

    global_worker.threads_stopped.set()
    global_worker.gcs_error_subscriber.close()


def _python_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
