"""What tests of several packages need: a catalog published over HTTP, and what others measured."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from benchmarks.estimate.scores import default_data

SLICES = Path(__file__).parent / "data"  # of the measured sets; see NOTICE.md there


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Ray come first: they take longest, and workers that share the files end together."""
    with_ray = {item.path for item in items if item.get_closest_marker("ray")}
    items.sort(key=lambda item: item.path not in with_ray)


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        pass


@pytest.fixture
def published(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the http address at which its files are served."""
    folder = tmp_path / "published"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def whole_sets() -> Path:
    """The measured sets beside the checkout; see `default_data`."""
    path = default_data()
    if not path.is_dir():
        pytest.skip(f"the whole measured sets are not at {path}; set PLANNER_DATA")
    return path


@pytest.fixture(scope="session", params=["slice", "whole"])
def measured_sets(request: pytest.FixtureRequest) -> Path:
    """The slices that stand in tests/data, and then the whole sets."""
    if request.param == "slice":
        return SLICES
    whole: Path = request.getfixturevalue("whole_sets")
    return whole
