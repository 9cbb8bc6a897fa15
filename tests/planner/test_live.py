"""What a person sees while a sweep runs: plain lines in a pipe, a live view in a terminal."""

from __future__ import annotations

import contextlib
import os
import pickle
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from planner.live import LiveView, announce
from planner.sweep import Event, Expected, Limits, TrialEnded, TrialStarted
from tests.fake_gpu import FakeGpu
from tests.planner.test_sweep import Bench
from trials.trial import FailureKind

ROOT = Path(__file__).parents[2]
LIMITS = Limits(max_trials=4, max_s=600.0, max_usd=25.0)
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """Of a sweep of four trials on a GPU with exact numbers; the second is lost."""
    folder: Path = tmp_path_factory.mktemp("sweep")
    bench = Bench(f"sqlite:///{folder / 'study.db'}", FakeGpu(failures={1: FailureKind.WORKER_LOST}))
    bench.sweep(LIMITS).run(bench.gpu.run_trial)
    return bench.events


def show(events: list[Event]) -> None:
    watch = LiveView(LIMITS)
    with watch.shown():
        for event in events:
            watch(event)


def seen_in_a_terminal(events: list[Event], folder: Path) -> str:
    """What a terminal gets of a process that shows these events; stdout must stay empty."""
    (folder / "events").write_bytes(pickle.dumps(events))
    terminal, end = pty.openpty()
    command = [
        sys.executable,
        "-c",
        "import sys; from tests.planner import test_live as t; t.show_saved(sys.argv[1])",
    ]
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": "200",
        "LINES": "50",
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.Popen(
        [*command, str(folder / "events")], stdout=subprocess.PIPE, stderr=end, env=environment
    )
    os.close(end)
    chunks = []
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes any more
        while chunk := os.read(terminal, 65_536):
            chunks.append(chunk)
    os.close(terminal)
    out, _ = process.communicate()
    assert (process.returncode, out) == (0, b"")
    return b"".join(chunks).decode()


def show_saved(path: str) -> None:
    """In the process of `seen_in_a_terminal`."""
    show(pickle.loads(Path(path).read_bytes()))


def test_without_a_terminal_each_start_and_each_end_is_a_line_on_stderr(
    events: list[Event], capsys: pytest.CaptureFixture[str]
) -> None:
    show(events)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    lines = err.splitlines()
    assert len(lines) == len(events) == 8
    for number in range(1, 5):
        start, end = [line for line in lines if line.startswith(f"trial {number}: ")]
        assert "micro batch" in start
        assert ", about " in start
        assert "micro batch" in end
    (lost,) = [line for line in lines if "injected" in line]
    assert "worker lost: injected" in lost
    measured = [line for line in lines if "samples/s" in line]
    assert len(measured) == 3
    assert all("GiB" in line and "run $" in line for line in measured)


def test_a_terminal_keeps_the_ends_and_shows_the_best_and_what_is_left(
    events: list[Event], tmp_path: Path
) -> None:
    text = seen_in_a_terminal(events, tmp_path)
    assert text.index(HIDE_CURSOR) < text.rindex(SHOW_CURSOR)
    assert text.count("worker lost: injected") == 1
    assert text.count("samples/s") == 3  # the ends stay as lines
    view = text[text.rindex("best so far: micro batch") :]
    assert "choosing the next trial" in text[text.rindex("samples/s") :]
    assert " left, " in view
    assert "spent of $25.00" in view
    assert "Ctrl-C ends after this trial" in view


def test_a_terminal_shows_what_is_under_way_and_no_longer_what_has_ended(
    events: list[Event], tmp_path: Path
) -> None:
    first, second = [event for event in events if isinstance(event, TrialStarted)][:2]
    (end,) = [event for event in events if isinstance(event, TrialEnded) and event.number == first.number]
    both = seen_in_a_terminal([first, second], tmp_path)
    view = both[: both.rindex("nothing measured yet")]
    assert "trial 1: micro batch" in view
    assert "trial 2: micro batch" in view
    view = seen_in_a_terminal([first, second, end], tmp_path).rpartition("samples/s")[2]
    assert "trial 1: " not in view
    assert "trial 2: micro batch" in view


def test_what_the_sweep_will_take_is_announced_with_its_limits() -> None:
    expected = Expected(trial_count=12, wall_s=240.0, cost_usd=0.5)
    assert announce(expected, LIMITS) == (
        "expected: about 12 trials, 4 min, about $0.50 at catalog prices "
        "(limits: 4 trials, 10 min and $25.00)"
    )
    unpriced = announce(
        Expected(trial_count=12, wall_s=240.0, cost_usd=None), Limits(max_trials=4, max_s=600.0, max_usd=None)
    )
    assert "no price is known for these devices, so only the trial and minute limits hold" in unpriced
    assert unpriced.endswith("(limits: 4 trials, 10 min)")
