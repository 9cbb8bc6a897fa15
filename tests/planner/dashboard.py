"""A Ray dashboard's Jobs API that keeps what it is sent and ends each job at once."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import ray

from trials.cluster.job import BEGIN, pack_lines

JOB = "raysubmit_1"


class Dashboard:
    """What a cluster would have seen."""

    def __init__(self, folder: Path, job: Callable[[Path], None]) -> None:
        self.folder, self.job = folder, job  # where the workload's directory arrives, and what runs in it
        self.address = ""
        self.requests: list[str] = []  # everything but packages, as text
        self.log = ""

    @property
    def files(self) -> dict[str, bytes]:
        """The user's files that arrived."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    def keep(self, package: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(package)) as archive:
            names = archive.namelist()
            if any(name.startswith("planner_workload_") for name in names):
                archive.extractall(self.folder)
        for folder in list(self.folder.iterdir()):
            if folder.name.startswith("planner_workload_"):
                for path in folder.iterdir():
                    path.rename(self.folder / path.name)
                folder.rmdir()

    def run(self) -> None:
        self.job(self.folder)
        lines = pack_lines(self.folder, ["study.db", "planner-report"]) or []
        self.log = "\n".join([BEGIN, "the sweep says this", *lines, ""])


@contextlib.contextmanager
def serving(dashboard: Dashboard) -> Iterator[Dashboard]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(dashboard))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    dashboard.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield dashboard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(dashboard: Dashboard) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/api/version":
                self.answer({"version": "4", "ray_version": ray.__version__, "ray_commit": ""})
            elif self.path.endswith("/logs"):
                self.answer({"logs": dashboard.log})
            elif self.path.startswith("/api/jobs/"):
                details = {
                    "type": "SUBMISSION",
                    "status": "SUCCEEDED",
                    "entrypoint": "",
                    "driver_exit_code": 0,
                }
                self.answer(details)
            else:
                self.send_error(404)

        def do_PUT(self) -> None:
            dashboard.keep(self.body())
            self.answer({})

        def do_POST(self) -> None:
            dashboard.requests.append(f"{self.path} {self.headers} {self.body().decode()}")
            dashboard.run()
            self.answer({"job_id": JOB, "submission_id": JOB})

        def body(self) -> bytes:
            return self.rfile.read(int(self.headers["Content-Length"]))

        def answer(self, content: object) -> None:
            text = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    return Handler
