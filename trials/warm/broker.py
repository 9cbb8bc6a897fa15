"""Hands trials to the workers of one warm group and takes what comes of them. Knows no Ray and no torch.

Lives in an actor beside the driver of ``TorchTrainer.fit``; the driver, the workers and Ray Train's
controller call it. Workers come in epochs: each time the group is (re)started, rank 0 says ``hello``. One
trial is in flight at a time; it ends exactly once, whatever dies meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trials.extras import Extras
from trials.trial import Failure, FailureKind, Measurement, Outcome, Purpose, TrialConfig
from trials.warm.blackbox import Box
from trials.warm.postmortem import explain_loss

ANSWER_MARGIN_S = 20.0  # beyond a trial's own limit, for a worker that was ended at the limit to be noticed
_RESTARTS_MAX = 2  # of a group that dies before a trial has begun, or before it says hello


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A trial to be done."""

    trial_id: int
    config: TrialConfig
    ranks: tuple[int, ...]  # of the group's workers, those that take part
    limit_s: float
    restart_limit_s: float  # how long replaced workers may take to come back
    extras: Extras = field(default_factory=Extras)
    purpose: Purpose = Purpose.SEARCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of an order."""

    outcome: Outcome
    is_broken: bool = False  # the group did not recover and must be replaced


@dataclass
class _Flight:
    """The trial in flight."""

    order: Order
    is_begun: bool = False  # every rank has it
    restart_count: int = 0
    failed: dict[int, Failure] = field(default_factory=dict)  # the first one first
    measured: dict[int, Measurement] = field(default_factory=dict)  # by rank: what stands so far
    followers: set[int] = field(default_factory=set)
    outcome: Outcome | None = None


class Broker:
    """See the module."""

    def __init__(
        self,
        merge: Callable[[Sequence[Outcome]], Outcome] = lambda outcomes: outcomes[0],
        answer_margin_s: float = ANSWER_MARGIN_S,
    ) -> None:
        """``merge`` makes one outcome of all ranks', in their order."""
        self._merge = merge
        self._answer_margin_s = answer_margin_s
        self._changed = asyncio.Condition()
        self._epoch = 0
        self._is_stopped = False
        self._is_recovering = False
        self._loss_count = 0  # since the last hello
        self._lost: dict[int, str] = {}
        self._flight: _Flight | None = None

    # -- the driver -----------------------------------------------------------------------------

    async def ready(self) -> str:
        """Return once workers are there: ``""``; or once they have died too often before: why."""
        await self._until(lambda: self._epoch > 0 or self._is_hopeless)
        return "" if self._epoch else self._last_words

    async def run(self, order: Order) -> Ended:
        """Have the workers do a trial. Ends within its limit, or when they are lost and did not come back."""
        flight = _Flight(order)
        async with self._changed:
            self._flight = flight
            self._changed.notify_all()
        limit_s = order.limit_s + self._answer_margin_s
        while flight.outcome is None:
            has_news = await self._within(limit_s, lambda: flight.outcome is not None or self._is_recovering)
            if flight.outcome is None and not has_news:
                reason = (
                    f"no worker answered within {limit_s:.0f} s, though the limit was {order.limit_s:.0f} s"
                )
                return self._given_up(flight, FailureKind.TIMED_OUT, reason)
            await self._within(
                order.restart_limit_s,
                lambda: flight.outcome is not None or not self._is_recovering or self._is_hopeless,
            )
            if flight.outcome is None and self._is_recovering:
                within = f"within {order.restart_limit_s:.0f} s"
                reason = f"the workers were lost and did not come back {within}: {self._last_words}"
                return self._given_up(flight, FailureKind.WORKER_LOST, reason)
        return self._ended(flight, flight.outcome)

    def saved(self, failure: Failure) -> Ended:
        """What stands of the trial under way, whose group ended with ``failure`` and must be replaced."""
        flight = self._flight
        if flight is None:
            return Ended(outcome=failure, is_broken=True)
        return self._ended(flight, failure, is_broken=True)

    async def stop(self) -> None:
        """Let the workers go home."""
        async with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    # -- rank 0 ---------------------------------------------------------------------------------

    async def hello(self, boxes: Sequence[Box]) -> int:
        """New workers are there, and bring what their predecessors left. Returns their epoch."""
        async with self._changed:
            self._epoch += 1
            flight = self._flight
            if flight is not None and flight.outcome is None:
                self._settle(flight, [box for box in boxes if box.trial_id == flight.order.trial_id])
            self._is_recovering = False
            self._loss_count = 0
            self._lost = {}
            self._changed.notify_all()
            return self._epoch

    async def next_order(self, epoch: int) -> Order | None:
        """The next trial; None for workers that are stopped or have been replaced."""
        await self._until(lambda: self._is_stopped or epoch != self._epoch or self._waiting is not None)
        return None if self._is_stopped or epoch != self._epoch else self._waiting

    async def begun(self, trial_id: int) -> None:
        """Every rank has the trial: from now on, losing a rank is the trial's own failure."""
        flight = self._flight
        if flight is not None and flight.order.trial_id == trial_id:
            flight.is_begun = True

    async def done(self, trial_id: int, outcome: Outcome) -> None:
        """Every rank has ended its part, and this came of it."""
        async with self._changed:
            flight = self._flight
            if flight is not None and flight.order.trial_id == trial_id and flight.outcome is None:
                flight.outcome = outcome
            self._changed.notify_all()

    # -- any rank -------------------------------------------------------------------------------

    async def failed(self, trial_id: int, rank: int, failure: Failure) -> None:
        """A rank failed alone or with others; those that wait for it are told."""
        async with self._changed:
            flight = self._flight
            if flight is not None and flight.order.trial_id == trial_id:
                flight.failed.setdefault(rank, failure)
            self._changed.notify_all()

    async def measured(self, trial_id: int, rank: int, measurement: Measurement) -> None:
        """What a rank has measured stands, whatever becomes of the rest of its trial."""
        flight = self._flight
        if flight is not None and flight.order.trial_id == trial_id:
            flight.measured[rank] = measurement

    async def first_failed(self, trial_id: int) -> int | None:
        """The rank that failed first, as soon as one does; None when the trial has ended."""
        flight = self._flight
        if flight is None or flight.order.trial_id != trial_id:
            return None
        await self._until(lambda: flight.failed or flight.outcome is not None)
        return next(iter(flight.failed), None) if flight.outcome is None else None

    async def follow(self, trial_id: int, rank: int) -> None:
        """A rank ends itself, since it waits in vain for one that failed."""
        flight = self._flight
        if flight is not None and flight.order.trial_id == trial_id:
            flight.followers.add(rank)

    # -- Ray Train's controller -----------------------------------------------------------------

    async def lost(self, reasons: Mapping[int, str]) -> None:
        """Ray Train noticed failed ranks and restarts the group."""
        async with self._changed:
            self._is_recovering = True
            self._loss_count += 1
            self._lost.update(reasons)
            self._changed.notify_all()

    # -------------------------------------------------------------------------------------------

    @property
    def _is_hopeless(self) -> bool:
        """Whether the workers die again and again before they can say hello."""
        return self._loss_count > _RESTARTS_MAX

    @property
    def _last_words(self) -> str:
        return next(iter(self._lost.values()), "no reason given")

    @property
    def _waiting(self) -> Order | None:
        """The order that no workers have begun."""
        flight = self._flight
        if flight is None or flight.is_begun or flight.outcome is not None:
            return None
        return flight.order

    def _settle(self, flight: _Flight, boxes: Sequence[Box]) -> None:
        """The workers were replaced with a trial in flight: it failed, or had not begun and is done again."""
        if flight.is_begun or flight.failed or any(box.stacks for box in boxes):
            flight.outcome = self._explanation(flight, boxes)
            return
        flight.restart_count += 1
        if flight.restart_count > _RESTARTS_MAX:
            flight.outcome = Failure(
                config=flight.order.config,
                kind=FailureKind.WORKER_LOST,
                reason=f"the workers died {flight.restart_count} times before the trial could begin",
                trial_s=0.0,
                detail="\n".join(self._lost.values()),
            )

    def _explanation(self, flight: _Flight, boxes: Sequence[Box]) -> Failure:
        return explain_loss(
            flight.order.config,
            ranks=flight.order.ranks,
            limit_s=flight.order.limit_s,
            boxes=boxes,
            failed=flight.failed,
            followers=flight.followers,
            lost=self._lost,
        )

    def _given_up(self, flight: _Flight, kind: FailureKind, reason: str) -> Ended:
        config = flight.order.config
        detail = "\n".join(self._lost.values())
        flight.outcome = Failure(config=config, kind=kind, reason=reason, trial_s=0.0, detail=detail)
        return self._ended(flight, flight.outcome, is_broken=True)

    def _ended(self, flight: _Flight, outcome: Outcome, *, is_broken: bool = False) -> Ended:
        """A trial that failed after every rank had reported its steps is measured, without the rest."""
        self._flight = None
        if isinstance(outcome, Measurement) or len(flight.measured) < len(flight.order.ranks):
            return Ended(outcome=outcome, is_broken=is_broken)
        merged = self._merge([flight.measured[rank] for rank in flight.order.ranks])
        if isinstance(merged, Measurement):
            lost = (
                f"incomplete: once its steps were timed, the trial ended ({outcome.kind}: {outcome.reason})"
            )
            merged = replace(merged, warnings=(*merged.warnings, lost))
        return Ended(outcome=merged, is_broken=is_broken or outcome.is_device_lost)

    async def _until(self, condition: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(condition()))

    async def _within(self, limit_s: float, condition: Callable[[], object]) -> bool:
        try:
            await asyncio.wait_for(self._until(condition), limit_s)
        except TimeoutError:
            return bool(condition())
        return True
