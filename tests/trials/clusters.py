"""Real Ray clusters on this machine: ``ray start`` with ports and directories of their own."""

import os
import random
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RAY = Path(sys.executable).with_name("ray")
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a-token-for-tests-only-0123456789"}
OPEN = {"RAY_AUTH_MODE": "disabled"}


@dataclass(frozen=True)
class Head:
    address: str
    dashboard: str | None


@contextmanager
def started(auth, *, node_count=1, has_dashboard=False):
    """A head and further nodes with one CPU each; `auth` is the environment of all of them."""
    # sockets need short paths; the reaper may still write when its node is gone
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        port, dashboard_port = free_port(), free_port()
        processes = []
        try:
            head = ["--head", f"--port={port}", f"--ray-client-server-port={free_port()}"]
            head += [
                f"--include-dashboard={str(has_dashboard).lower()}",
                f"--dashboard-port={dashboard_port}",
            ]
            processes.append(start_node(head, Path(scratch) / "0", auth))
            address = f"{socket.gethostbyname(socket.gethostname())}:{port}"
            for number in range(1, node_count):
                node = [f"--address=127.0.0.1:{port}"]
                processes.append(start_node(node, Path(scratch) / str(number), auth))
            yield Head(address, f"http://127.0.0.1:{dashboard_port}" if has_dashboard else None)
        finally:
            for process in reversed(processes):
                process.kill()  # its reaper ends the node; on SIGTERM it would take half a minute
                process.wait(timeout=30)
                process.stdout.close()


def start_node(arguments, folder, auth):
    ports = {
        "dashboard-agent-listen-port": free_port(),
        "dashboard-agent-grpc-port": free_port(),
        "metrics-export-port": free_port(),
        "runtime-env-agent-port": free_port(),
    }
    low = random.randrange(20_000, 29_000, 100)
    command = [RAY, "start", "--block", "--num-cpus=1", f"--temp-dir={folder}", *arguments]
    command += [f"--{name}={port}" for name, port in ports.items()]
    command += [f"--min-worker-port={low}", f"--max-worker-port={low + 99}", "--disable-usage-stats"]
    process = subprocess.Popen(
        command,
        env={**os.environ, **auth},
        start_new_session=True,  # the reaper ends a process group: not that of the tests
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen = []
    for line in process.stdout:
        seen.append(line)
        if "--block" in line:  # "This command will now block forever": the node is up
            return process
    raise AssertionError("".join(seen))


_GIVEN = set()


def free_port():
    """A free port, never the same twice: the system may hand out again what was closed a moment ago."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _GIVEN:
            _GIVEN.add(port)
            return port
