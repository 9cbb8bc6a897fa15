"""Who is taken for a sweep that still works on a study, and who for one that has gone."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from planner.study.holder import DEAD_AFTER_S, Holder, others, process_start, this_process


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def holder(pid: int, *, start: str | None, age_s: float = 0.0, host: str = "") -> Holder:
    return Holder(host=host or socket.gethostname(), pid=pid, seen_at_s=time.time() - age_s, start=start)


def is_alive(one: Holder) -> bool:
    return one.is_alive(time.time())


def test_a_process_lives_however_long_ago_it_was_heard_of(process: subprocess.Popen[bytes]) -> None:
    assert is_alive(holder(process.pid, start=process_start(process.pid), age_s=1e6))  # a laptop slept
    process.kill()
    process.wait()
    assert not is_alive(holder(process.pid, start=process_start(process.pid)))


def test_another_process_that_got_the_number_is_not_the_sweep(process: subprocess.Popen[bytes]) -> None:
    assert not is_alive(holder(process.pid, start=process_start(os.getpid())))


def test_one_that_ended_and_was_not_waited_for_is_dead(process: subprocess.Popen[bytes]) -> None:
    start = process_start(process.pid)
    process.kill()
    os.waitid(
        os.P_PID, process.pid, os.WEXITED | os.WNOWAIT
    )  # as in a container whose first process waits for nobody
    assert not is_alive(holder(process.pid, start=start))


def test_where_nothing_tells_its_start_the_beat_decides(process: subprocess.Popen[bytes]) -> None:
    assert is_alive(holder(process.pid, start=None))
    assert not is_alive(holder(process.pid, start=None, age_s=DEAD_AFTER_S + 1))


def test_of_another_host_the_beat_decides() -> None:
    assert is_alive(holder(1, start="x", host="elsewhere"))
    assert not is_alive(holder(1, start="x", host="elsewhere", age_s=DEAD_AFTER_S + 1))


def test_this_process_is_no_other(process: subprocess.Popen[bytes]) -> None:
    assert this_process().start == process_start(os.getpid())
    mine = {"pid": os.getpid(), "seen_at_s": time.time()}
    theirs = {"pid": process.pid, "seen_at_s": time.time(), "start": process_start(process.pid), "new": 1}
    assert others({f"holder:{socket.gethostname()}": mine, "holder:gone": None, "notes": []}) == {}
    assert [one.pid for one in others({f"holder:{socket.gethostname()}": theirs}).values()] == [process.pid]
