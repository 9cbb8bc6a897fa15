"""Real processes on real cores, counted by the kernel."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trials.machine.host_load import HostLoad

CORE_S = 0.5
SPIN = f"import time\nwhile time.process_time() < {CORE_S}: pass"


def spin() -> None:
    until_s = time.process_time() + CORE_S
    while time.process_time() < until_s:
        pass


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the kernel has no /proc/stat")
def test_own_work_and_that_of_children_is_told_from_what_others_do() -> None:
    with HostLoad() as load:
        spin()
        child = multiprocessing.get_context("spawn").Process(target=spin)
        child.start()
        child.join()
    assert load.own_s >= 2 * CORE_S
    assert load.busy_s is not None
    assert load.busy_s >= load.own_s - 0.1

    with HostLoad() as load:  # a process whose parent is gone is no child of ours; its output ends with it
        subprocess.run(["sh", "-c", f"{sys.executable} -c '{SPIN}' &"], stdout=subprocess.PIPE, check=True)
    assert load.own_s < CORE_S
    assert load.busy_s is not None
    assert load.busy_s - load.own_s >= CORE_S - 0.1
    fraction = load.foreign_fraction(load.own_s)
    assert fraction is not None
    assert fraction > 0


def test_without_a_reading_nothing_is_said() -> None:
    assert HostLoad().foreign_fraction(0.0) is None
