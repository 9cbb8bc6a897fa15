"""Runs trials on Ray Train. Every failure comes back as a value.

Starting a Ray Train run takes 14 to 27 seconds; a trial in a run that is warm, milliseconds. So one run per
kind of device stays, its workers ask for trial after trial, and it is replaced only when it is broken or a
trial needs another shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from trials.devices import DeviceGroup
from trials.errors import TrialsError
from trials.trial import Failure, Outcome, TrialConfig, Workload
from trials.warm.runner_settings import RunnerSettings
from trials.warm.warm_group import WarmGroup

__all__ = ["RunTrial", "RunnerSettings", "open_runner"]

RunTrial = Callable[[TrialConfig], Outcome]


@contextmanager
def open_runner(
    workload: Workload, groups: Sequence[DeviceGroup], settings: RunnerSettings | None = None
) -> Iterator[RunTrial]:
    """A function that runs one trial after the other; its workers go when the ``with`` block ends.

    Groups start when a trial first needs them. Calls for different GPUs may come from different threads.

    Args:
        workload: the model file, as hashed on this machine.
        groups: what the attached cluster has, by catalog GPU.
        settings: see there.
    """
    runner = _Runner(workload, groups, settings or RunnerSettings())
    try:
        yield runner.run
    finally:
        runner.close()


class _Runner:
    def __init__(self, workload: Workload, groups: Sequence[DeviceGroup], settings: RunnerSettings) -> None:
        self._groups = {group.gpu: WarmGroup(workload, group, settings) for group in groups}

    def run(self, config: TrialConfig) -> Outcome:
        """Run one trial."""
        group = self._groups.get(config.gpu)
        if group is None:
            known = ", ".join(sorted(self._groups)) or "no known device"
            raise TrialsError(f"no {config.gpu} in the cluster; it has {known}")
        with group.lock:
            begun_s = time.monotonic()
            outcome = group.run(config)
            if isinstance(outcome, Failure) and not outcome.trial_s:
                return replace(outcome, trial_s=time.monotonic() - begun_s)
            return outcome

    def close(self) -> None:
        for group in self._groups.values():
            group.close()
