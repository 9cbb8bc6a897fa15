"""What a container may use and has used, from its control group (version 2, 1, or both mounted).

In a container `/proc` and `sysconf` speak of the host: its memory, its cores, all its containers' kills.
Files: https://docs.kernel.org/admin-guide/cgroup-v2.html and .../cgroup-v1/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_MEMINFO = Path("/proc/meminfo")
_UNLIMITED_BYTES = 1 << 60  # version 1 writes the largest page-aligned number where there is no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """Limits and counters of this process's control group; None where it has no such limit or counter."""

    memory_limit_bytes: int | None = None
    memory_used_bytes: int | None = None  # without file pages that the kernel would drop first
    oom_kill_count: int | None = None  # processes that the kernel has killed for memory in it
    cpu_limit: float | None = None  # cores
    cpu_used_s: float | None = None  # core seconds, of the group that has the limit


def read_cgroup(root: Path = ROOT, membership: Path = MEMBERSHIP) -> Cgroup:
    """The control group of this process.

    Args:
        root: where control groups are mounted.
        membership: the kernel's list of the groups that the process is in.
    """
    try:
        lines = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return Cgroup()
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    memory = _folders(root, paths, "memory")
    cpu = _folders(root, paths, "cpu")
    limits = [limit for folder in memory if (limit := _memory_limit(folder)) is not None]
    quotas = {level: quota for level, folder in enumerate(cpu) if (quota := _quota(folder)) is not None}
    level = min(quotas, key=lambda level: quotas[level], default=None)
    accounts = _folders(root, paths, "cpuacct" if "cpuacct" in paths else "cpu")
    return Cgroup(
        memory_limit_bytes=min(limits, default=None),
        memory_used_bytes=_memory_used(memory[0]) if memory else None,
        oom_kill_count=_oom_kills(memory[0]) if memory else None,
        cpu_limit=None if level is None else quotas[level],
        cpu_used_s=None if level is None else _cpu_used_s(accounts[level]),
    )


def available_memory_bytes() -> int | None:
    """Bytes that the kernel would give without swapping, or the container has left; None where unknown."""
    group = read_cgroup()
    found = []
    if group.memory_limit_bytes is not None and group.memory_used_bytes is not None:
        found.append(max(0, group.memory_limit_bytes - group.memory_used_bytes))
    if _MEMINFO.exists():
        lines = _MEMINFO.read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return min(found, default=None)


def _folders(root: Path, paths: dict[str, str], controller: str) -> Sequence[Path]:
    """The process's group of a controller and those around it, the innermost first.

    A container that does not see the groups around its own has it at the root, whatever its path.
    """
    if controller in paths:  # version 1: a hierarchy for each, or for "cpu,cpuacct"
        names = (controller, "cpu,cpuacct", "cpuacct,cpu")
        base = next((root / name for name in names if (root / name).is_dir()), root)
        path = paths[controller]
    else:
        base = root / "unified" if (root / "unified").is_dir() else root
        path = paths.get("", "/")
    own = base / path.lstrip("/")
    inside = [folder for folder in (own, *own.parents) if folder.is_relative_to(base)]
    return [folder for folder in inside if folder.is_dir()]


def _memory_limit(folder: Path) -> int | None:
    limit = _number(folder / "memory.max")
    if limit is None:
        limit = _number(folder / "memory.limit_in_bytes")
    return None if limit is None or limit >= _UNLIMITED_BYTES else limit


def _memory_used(folder: Path) -> int | None:
    for usage, droppable in (
        ("memory.current", "inactive_file"),
        ("memory.usage_in_bytes", "total_inactive_file"),
    ):
        used = _number(folder / usage)
        if used is not None:
            return max(0, used - (_entry(folder / "memory.stat", droppable) or 0))
    return None


def _oom_kills(folder: Path) -> int | None:
    count = _entry(folder / "memory.events", "oom_kill")
    return _entry(folder / "memory.oom_control", "oom_kill") if count is None else count


def _quota(folder: Path) -> float | None:
    """Cores; None where there is no limit."""
    words = _text(folder / "cpu.max").split()
    if len(words) == 2:  # noqa: PLR2004  (quota and period, in microseconds)
        return None if words[0] == "max" else int(words[0]) / int(words[1])
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return None if quota is None or not period or quota <= 0 else quota / period


def _cpu_used_s(folder: Path) -> float | None:
    used_us = _entry(folder / "cpu.stat", "usage_usec")
    if used_us is not None:
        return used_us / 1e6
    used_ns = _number(folder / "cpuacct.usage")
    return None if used_ns is None else used_ns / 1e9


def _entry(path: Path, name: str) -> int | None:
    """The number behind ``name`` in a file of names and numbers."""
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name:  # noqa: PLR2004  (name and number)
            return int(words[1])
    return None


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _text(path: Path) -> str:
    """What a file says; "" where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
