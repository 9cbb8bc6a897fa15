"""Runs trials on Ray Train. Every failure comes back as a value.

Starting a Ray Train run takes 14 to 27 seconds; a trial in a run that is warm, milliseconds. So a run stays,
its workers ask for trial after trial, and it is replaced only when it is broken or a trial needs another
shape. Nodes have runs of their own, side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from trials.devices import DeviceGroup
from trials.errors import TrialsError
from trials.measurement import Outcome
from trials.trial import Purpose, TrialConfig, Workload
from trials.workers.node_pool import NodePool
from trials.workers.runner_settings import RunnerSettings

__all__ = ["Runner", "RunnerSettings", "open_runner"]

_EARLY_END_LIMIT_S = 10.0


@contextmanager
def open_runner(
    workload: Workload, groups: Sequence[DeviceGroup], settings: RunnerSettings | None = None
) -> Iterator[Runner]:
    """What runs trials; its workers go when the ``with`` block ends.

    Groups start when a trial first needs them. Calls may come from several threads: those that find no idle
    nodes wait for their turn.

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
    """The warm groups of a cluster, by type of device; made by `open_runner`."""

    def __init__(self, workload: Workload, groups: Sequence[DeviceGroup], settings: RunnerSettings) -> None:
        self._workload = workload
        self._settings = settings
        self._types = {group.gpu: NodePool(workload, group, settings) for group in groups}
        self._early: threading.Thread | None = None

    def start_early(self, config: TrialConfig) -> None:
        """Start the workers that a trial of ``config`` needs and return at once; trials wait for them.

        Nothing happens where there is more than one type of device: which is tried first is not known yet.
        """
        if len(self._types) != 1:
            return
        pool = self._types[config.gpu]
        self._early = threading.Thread(
            target=pool.start_early, args=(config,), daemon=True, name="early-start"
        )
        self._early.start()

    def __call__(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        """The outcome of one trial, as soon as idle nodes have run it; what fails inside is a Failure.

        Raises TrialsError for a type of device that the cluster does not have.
        """
        pool = self._types.get(config.gpu)
        if pool is None:
            known = ", ".join(sorted(self._types)) or "no known device"
            raise TrialsError(f"no {config.gpu} in the cluster; it has {known}")
        if self._early is not None:
            self._early.join()  # beside it, a trial would start workers on another node
        return pool.run(config, purpose)

    def has_room(self, config: TrialConfig, in_flight: Sequence[TrialConfig]) -> bool:
        """Whether a trial would begin at once beside those under way; see `NodePool.has_room`."""
        pool = self._types.get(config.gpu)
        return pool is None or pool.has_room(config, [one for one in in_flight if one.gpu == config.gpu])

    def held(self) -> Mapping[str, int]:
        """Devices that groups hold now, by GPU type: GPUs, or CPU machines."""
        held = {gpu: pool.held_count for gpu, pool in self._types.items()}
        return {gpu: count for gpu, count in held.items() if count}

    def held_from_s(self) -> Mapping[str, float]:
        """Since when, by time.monotonic, those devices are held."""
        since = {gpu: pool.held_from_s for gpu, pool in self._types.items()}
        return {gpu: from_s for gpu, from_s in since.items() if from_s is not None}

    def regroup(self, groups: Sequence[DeviceGroup], worker_counts: Mapping[str, int]) -> bool:
        """Go on with other devices. False while a trial is under way on some that left: ask again."""
        self._settings = replace(self._settings, worker_counts=worker_counts)
        there = {group.gpu: group for group in groups}
        is_whole = True
        for gpu, pool in list(self._types.items()):
            has_moved = pool.move_to(there.get(gpu), self._settings)
            is_whole = is_whole and has_moved
            if has_moved and gpu not in there:
                del self._types[gpu]
        for gpu, found in there.items():
            if gpu not in self._types:
                self._types[gpu] = NodePool(self._workload, found, self._settings)
        return is_whole

    def close(self) -> None:
        """End all workers, also those that are only starting."""
        is_starting = self._early is not None and self._early.is_alive()
        for pool in self._types.values():
            pool.close()
        if self._early is not None and is_starting:
            self._early.join(_EARLY_END_LIMIT_S)  # its thread sees the start fail, or has just begun it
            for pool in self._types.values():
                pool.close()
