"""Sees nodes come and go while a sweep runs, and lets the search and the runner go on with what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planner.commands.available_devices import AvailableDevices
from planner.errors import PlannerError
from planner.live import say
from planner.search.search import Search
from trials.api import DeviceGroup, Runner, TrialsError, alive_nodes


@dataclass(slots=True, kw_only=True)
class ClusterWatcher:
    """Called between trials: milliseconds while nothing changes."""

    find: Callable[[], AvailableDevices]
    search: Search
    runner: Runner
    _seen: frozenset[str] = field(default_factory=alive_nodes)
    _pending: AvailableDevices | None = None

    def __call__(self) -> None:
        """Go on with other devices where nodes came or left."""
        now = alive_nodes()
        if now != self._seen:
            came, left = len(now - self._seen), len(self._seen - now)
            self._seen = now
            self._change(came, left)
        if self._pending is not None and self.runner.regroup(
            self._pending.groups, self._pending.worker_counts
        ):
            self._pending = None

    def _change(self, came: int, left: int) -> None:
        before = _counts(self.search.state.market.groups)
        what = " and ".join(
            text
            for text in (f"{came} node(s) joined" if came else "", f"{left} node(s) left" if left else "")
            if text
        )
        try:
            here = self.find()
        except (PlannerError, TrialsError) as problem:
            say(f"{what} the cluster, and the sweep goes on as before: {problem}")
            return
        self.search.state.move_to(here.configs, here.groups, here.usd_per_hour)
        self._pending = here
        after = _counts(here.groups)
        for note in here.notes:
            say(note)
        if before == after:
            say(f"{what} the cluster: the devices for trials are the same")
        else:
            say(f"{what} the cluster: trials now run on {_shown(after)} (before: {_shown(before)})")


def _counts(groups: tuple[DeviceGroup, ...]) -> dict[str, int]:
    return {group.gpu: group.worker_count_max for group in groups}


def _shown(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} x {gpu}" for gpu, count in counts.items())
