"""Runs trials on Ray Train. Every failure comes back as a value.

Starting a Ray Train run takes 14 to 27 seconds; a trial in a run that is warm, milliseconds. So one run per
kind of device stays, its workers ask for trial after trial, and it is replaced only when it is broken or a
trial needs another shape.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from trials.devices import DeviceGroup
from trials.errors import TrialsError
from trials.trial import Failure, Outcome, Purpose, TrialConfig, Workload
from trials.warm.runner_settings import RunnerSettings
from trials.warm.warm_group import WarmGroup

__all__ = ["Runner", "RunnerSettings", "open_runner"]

_EARLY_END_LIMIT_S = 10.0


@contextmanager
def open_runner(
    workload: Workload, groups: Sequence[DeviceGroup], settings: RunnerSettings | None = None
) -> Iterator[Runner]:
    """What runs one trial after the other; its workers go when the ``with`` block ends.

    Groups start when a trial first needs them. Calls for different GPUs may come from different threads.

    Args:
        workload: the model file, as hashed on this machine.
        groups: what the attached cluster has, by catalog GPU.
        settings: see there.
    """
    runner = Runner(workload, groups, settings or RunnerSettings())
    try:
        yield runner
    finally:
        runner.close()


class Runner:
    """The warm groups of a cluster, one for each kind of device; made by `open_runner`."""

    def __init__(self, workload: Workload, groups: Sequence[DeviceGroup], settings: RunnerSettings) -> None:
        self._workload = workload
        self._settings = settings
        self._groups = {group.gpu: WarmGroup(workload, group, settings) for group in groups}
        self._early: threading.Thread | None = None

    def start_early(self, config: TrialConfig) -> None:
        """Start the workers that a trial of ``config`` needs and return at once; a trial waits for them.

        Nothing happens where there is more than one type of device: which is tried first is not known yet.
        """
        if len(self._groups) != 1:
            return
        group = self._groups[config.gpu]

        def work() -> None:
            with group.lock:
                group.start_early(config)

        self._early = threading.Thread(target=work, daemon=True, name="early-start")
        self._early.start()

    def __call__(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        """Run one trial."""
        group = self._groups.get(config.gpu)
        if group is None:
            known = ", ".join(sorted(self._groups)) or "no known device"
            raise TrialsError(f"no {config.gpu} in the cluster; it has {known}")
        with group.lock:
            begun_s = time.monotonic()
            outcome = group.run(config, purpose)
            if isinstance(outcome, Failure) and not outcome.trial_s:
                return replace(outcome, trial_s=time.monotonic() - begun_s)
            return outcome

    def held(self) -> Mapping[str, int]:
        """Devices that groups hold now, by GPU type: GPUs, or CPU machines."""
        return {gpu: group.held_count for gpu, group in self._groups.items() if group.held_count}

    def held_from_s(self) -> Mapping[str, float]:
        """Since when, by time.monotonic, those devices are held."""
        return {gpu: group.held_from_s for gpu, group in self._groups.items() if group.held_count}

    def regroup(self, groups: Sequence[DeviceGroup], worker_counts: Mapping[str, int]) -> bool:
        """Go on with other devices. False where a trial in flight left its group as it is: ask again."""
        is_whole = True
        self._settings = replace(self._settings, worker_counts=worker_counts)
        there = {group.gpu: group for group in groups}
        for gpu, group in list(self._groups.items()):
            if not group.lock.acquire(blocking=False):
                is_whole = False
                continue
            try:
                group.move_to(there.get(gpu), self._settings)
            finally:
                group.lock.release()
            if gpu not in there:
                del self._groups[gpu]
        for gpu, found in there.items():
            if gpu not in self._groups:
                self._groups[gpu] = WarmGroup(self._workload, found, self._settings)
        return is_whole

    def close(self) -> None:
        """End all workers, also those that are only starting."""
        if self._early is not None and self._early.is_alive():
            for group in self._groups.values():
                group.close(is_broken=True)  # its thread sees the start fail
            self._early.join(_EARLY_END_LIMIT_S)
        for group in self._groups.values():
            group.close()
