"""The place in a loader, so that a run that is taken up again sees the batches it would have seen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from planner.errors import PlannerError
from trials.api import random_state, restore_random_state


class LoaderPosition:
    """Epoch, batches used of it, and the random state at its beginning, which decides its order.

    To go on, the epoch is begun again from that state and its used batches are passed over. Exact for
    loaders whose order follows from torch's generator or from ``generator=``, with worker processes too,
    unless those persist over epochs and draw random numbers of their own. A loader that keeps its own place
    (``state_dict``, as torchdata's StatefulDataLoader) is given it back instead, and fetches nothing again.
    """

    def __init__(self, loader: Any, saved: dict[str, Any] | None) -> None:
        self._loader = loader
        self._epoch = saved["epoch"] if saved else 0
        self._used = saved["used"] if saved else 0
        self._begun_with: dict[str, Any] | None = saved["begun_with"] if saved else None
        self._own: Any = saved.get("own") if saved else None  # the loader's own state
        self._is_stateful = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        self._is_resuming = saved is not None

    def state(self) -> dict[str, Any] | None:
        """What to save; None before the first batch."""
        if self._begun_with is None:
            return None
        state = {"epoch": self._epoch, "used": self._used, "begun_with": self._begun_with}
        return {**state, "own": self._loader.state_dict()} if self._is_stateful else state

    def batches(self) -> Iterator[Any]:
        """Without end, unless an epoch has no batch at all."""
        while True:
            has_batches = False
            for batch in self._epoch_batches():
                has_batches = True
                self._used += 1
                yield batch
            if not has_batches and self._used == 0:
                return
            self._epoch += 1
            self._used = 0

    def _epoch_batches(self) -> Iterator[Any]:
        self._set_epoch()
        if not self._is_resuming:
            self._begun_with = {"random": random_state(), "generators": self._generator_states()}
            yield from self._loader
            return
        self._is_resuming = False
        assert self._begun_with is not None
        now = random_state()
        restore_random_state(self._begun_with["random"])
        for generator, state in zip(self._generators(), self._begun_with["generators"], strict=True):
            generator.set_state(state)
        if self._own is not None and self._is_stateful:
            self._loader.load_state_dict(self._own)
            batches = iter(self._loader)
            restore_random_state(now)
            yield from batches
            return
        batches = iter(self._loader)
        passed = sum(1 for _ in islice(batches, self._used))
        if passed < self._used:
            raise PlannerError(
                f"the loader has {passed} batches, but {self._used} of its epoch were used already: "
                "resume with the loader of the run that was saved, or name another directory to begin anew"
            )
        restore_random_state(now)
        yield from batches

    def _set_epoch(self) -> None:
        """A DistributedSampler shuffles by the number of the epoch."""
        sampler: Any = getattr(self._loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self._epoch)

    def _generators(self) -> list[Any]:
        """The loader's own ones, each once."""
        owners = (self._loader, getattr(self._loader, "sampler", None))
        found = [generator for one in owners if (generator := getattr(one, "generator", None)) is not None]
        return [one for index, one in enumerate(found) if all(one is not other for other in found[:index])]

    def _generator_states(self) -> list[Any]:
        return [one.get_state() for one in self._generators()]
