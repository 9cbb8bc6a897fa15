"""What other processes take of the host's cores while the steps are timed.

The kernel's count of busy time (`/proc/stat`, proc(5)) less this process's own and its children's: what is
left is foreign, time that the hypervisor gave to others ("steal") included. Where a container is given a
number of cores, they and the container's own count stand for the host's. Ranks on one host are told apart
from foreigners by adding up what each says of itself.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from trials.machine.cgroup import Cgroup, read_cgroup

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # idle and iowait, among user nice system idle iowait irq softirq steal
_FIELDS = 8  # guests, behind them, are counted as users already
_CHILD_TIMES = slice(11, 13)  # utime and stime of /proc/PID/stat, counted behind the name in brackets


class HostLoad:
    """Reads the host's clocks as its ``with`` block begins and ends."""

    def __init__(self, cgroup: Callable[[], Cgroup] = read_cgroup) -> None:
        self._cgroup = cgroup
        self._begun: tuple[float, float, float] | None = None
        self.own_s = 0.0  # core seconds of this process
        self.busy_s: float | None = None  # core seconds of the host; None where the kernel does not say
        self.all_s = 0.0  # core seconds that there were

    def __enter__(self) -> HostLoad:
        self._begun = _read(self._cgroup())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = _read(self._cgroup())
        if self._begun is not None and now is not None:
            self.busy_s, self.all_s, self.own_s = (
                after - before for after, before in zip(now, self._begun, strict=True)
            )

    def foreign_fraction(self, own_s: float) -> float | None:
        """Share of the host's cores that others used, where all ranks on it took ``own_s``; None: unknown."""
        if self.busy_s is None or self.all_s <= 0:
            return None
        return min(max((self.busy_s - own_s) / self.all_s, 0.0), 1.0)


def _read(group: Cgroup) -> tuple[float, float, float] | None:
    """Core seconds since some start: of the host, busy and in all, of this process and its children."""
    if not _STAT.exists():
        return None
    times = os.times()
    own_s = times.user + times.system + times.children_user + times.children_system
    own_s += sum(_child_ticks(child.pid) for child in multiprocessing.active_children()) / _ticks_per_s()
    if group.cpu_limit is not None and group.cpu_used_s is not None:
        return group.cpu_used_s, group.cpu_limit * time.monotonic(), own_s
    values = [int(ticks) for ticks in _STAT.read_text().split(maxsplit=_FIELDS + 1)[1 : _FIELDS + 1]]
    idle = sum(values[index] for index in _IDLE)
    return (sum(values) - idle) / _ticks_per_s(), sum(values) / _ticks_per_s(), own_s


def _child_ticks(pid: int | None) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended since
        return 0
    return sum(map(int, text.rpartition(")")[2].split()[_CHILD_TIMES]))


def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")
