"""Hands trials to the workers of one warm group and takes what comes of them. Knows no Ray and no torch.

Lives in an actor beside the driver of ``TorchTrainer.fit``; the driver, the workers and Ray Train's
controller call it. Workers come in epochs: each time the group is (re)started, rank 0 says ``hello``. One
trial is under way at a time; it ends exactly once, whatever dies meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trials.measurement import Measurement, Outcome
from trials.trial import Failure, FailureKind
from trials.workers.crash_record import CrashRecord
from trials.workers.postmortem import explain_loss
from trials.workers.trial_request import TrialReply, TrialRequest

ANSWER_MARGIN_S = 20.0  # beyond a trial's own limit, for a worker that was ended at the limit to be noticed
_RESTARTS_MAX = 2  # of a group that dies before a trial has begun, or before it says hello


@dataclass
class _RunningTrial:
    """The trial under way."""

    request: TrialRequest
    is_begun: bool = False  # every rank has it
    restart_count: int = 0
    failed: dict[int, Failure] = field(default_factory=dict)  # the first one first
    measured: dict[int, Measurement] = field(default_factory=dict)  # by rank: what stands so far
    followers: set[int] = field(default_factory=set)
    outcome: Outcome | None = None


class Broker:
    """Trials in, outcomes out, one at a time; every method may be called while another waits."""

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
        self._trial: _RunningTrial | None = None

    # -- the driver -----------------------------------------------------------------------------

    async def ready(self) -> str:
        """Return once workers are there: ``""``; or once they have died too often before: why."""
        await self._until(lambda: self._epoch > 0 or self._is_hopeless)
        return "" if self._epoch else self._last_words

    async def run(self, request: TrialRequest) -> TrialReply:
        """Have the workers do a trial. Ends within its limit, or when they are lost and did not come back."""
        trial = _RunningTrial(request)
        async with self._changed:
            self._trial = trial
            self._changed.notify_all()
        limit_s = request.limit_s + self._answer_margin_s
        while trial.outcome is None:
            has_news = await self._within(limit_s, lambda: trial.outcome is not None or self._is_recovering)
            if trial.outcome is None and not has_news:
                reason = (
                    f"no worker answered within {limit_s:.0f} s, though the limit was {request.limit_s:.0f} s"
                )
                return self._given_up(trial, FailureKind.TIMED_OUT, reason)
            await self._within(
                request.restart_limit_s,
                lambda: trial.outcome is not None or not self._is_recovering or self._is_hopeless,
            )
            if trial.outcome is None and self._is_recovering:
                within = f"within {request.restart_limit_s:.0f} s"
                reason = f"the workers were lost and did not come back {within}: {self._last_words}"
                return self._given_up(trial, FailureKind.WORKER_LOST, reason)
        return self._ended(trial, trial.outcome)

    def saved(self, failure: Failure) -> TrialReply:
        """What stands of the trial under way, whose group ended with ``failure`` and must be replaced."""
        trial = self._trial
        if trial is None:
            return TrialReply(outcome=failure, is_broken=True)
        return self._ended(trial, failure, is_broken=True)

    async def stop(self) -> None:
        """Give the workers no more trials, so that their loops end."""
        async with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    # -- rank 0 ---------------------------------------------------------------------------------

    async def hello(self, records: Sequence[CrashRecord]) -> int:
        """New workers are there, and bring what their predecessors left. Returns their epoch."""
        async with self._changed:
            self._epoch += 1
            trial = self._trial
            if trial is not None and trial.outcome is None:
                trial_id = trial.request.trial_id
                self._settle(trial, [record for record in records if record.trial_id == trial_id])
            self._is_recovering = False
            self._loss_count = 0
            self._lost = {}
            self._changed.notify_all()
            return self._epoch

    async def next_request(self, epoch: int) -> TrialRequest | None:
        """The next trial; None for workers that are stopped or have been replaced."""
        await self._until(lambda: self._is_stopped or epoch != self._epoch or self._waiting is not None)
        return None if self._is_stopped or epoch != self._epoch else self._waiting

    async def begun(self, trial_id: int) -> None:
        """Every rank has the trial: from now on, losing a rank is the trial's own failure."""
        trial = self._trial
        if trial is not None and trial.request.trial_id == trial_id:
            trial.is_begun = True

    async def done(self, trial_id: int, outcome: Outcome) -> None:
        """Every rank has ended its part, and this came of it."""
        async with self._changed:
            trial = self._trial
            if trial is not None and trial.request.trial_id == trial_id and trial.outcome is None:
                trial.outcome = outcome
            self._changed.notify_all()

    # -- any rank -------------------------------------------------------------------------------

    async def failed(self, trial_id: int, rank: int, failure: Failure) -> None:
        """A rank failed alone or with others; those that wait for it are told."""
        async with self._changed:
            trial = self._trial
            if trial is not None and trial.request.trial_id == trial_id:
                trial.failed.setdefault(rank, failure)
            self._changed.notify_all()

    async def measured(self, trial_id: int, rank: int, measurement: Measurement) -> None:
        """What a rank has measured stands, whatever becomes of the rest of its trial."""
        trial = self._trial
        if trial is not None and trial.request.trial_id == trial_id:
            trial.measured[rank] = measurement

    async def first_failed(self, trial_id: int) -> int | None:
        """The rank that failed first, as soon as one does; None when the trial has ended."""
        trial = self._trial
        if trial is None or trial.request.trial_id != trial_id:
            return None
        await self._until(lambda: trial.failed or trial.outcome is not None)
        return next(iter(trial.failed), None) if trial.outcome is None else None

    async def follow(self, trial_id: int, rank: int) -> None:
        """A rank ends itself, since it waits in vain for one that failed."""
        trial = self._trial
        if trial is not None and trial.request.trial_id == trial_id:
            trial.followers.add(rank)

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
    def _waiting(self) -> TrialRequest | None:
        """The request that no workers have begun."""
        trial = self._trial
        if trial is None or trial.is_begun or trial.outcome is not None:
            return None
        return trial.request

    def _settle(self, trial: _RunningTrial, records: Sequence[CrashRecord]) -> None:
        """The workers were replaced with a trial under way: it failed, or had not begun and is done again."""
        if trial.is_begun or trial.failed or any(record.stacks for record in records):
            trial.outcome = self._explanation(trial, records)
            return
        trial.restart_count += 1
        if trial.restart_count > _RESTARTS_MAX:
            trial.outcome = Failure(
                config=trial.request.config,
                kind=FailureKind.WORKER_LOST,
                reason=f"the workers died {trial.restart_count} times before the trial could begin",
                trial_s=0.0,
                detail="\n".join(self._lost.values()),
            )

    def _explanation(self, trial: _RunningTrial, records: Sequence[CrashRecord]) -> Failure:
        return explain_loss(
            trial.request.config,
            ranks=trial.request.ranks,
            limit_s=trial.request.limit_s,
            records=records,
            failed=trial.failed,
            followers=trial.followers,
            lost=self._lost,
        )

    def _given_up(self, trial: _RunningTrial, kind: FailureKind, reason: str) -> TrialReply:
        config = trial.request.config
        detail = "\n".join(self._lost.values())
        trial.outcome = Failure(config=config, kind=kind, reason=reason, trial_s=0.0, detail=detail)
        return self._ended(trial, trial.outcome, is_broken=True)

    def _ended(self, trial: _RunningTrial, outcome: Outcome, *, is_broken: bool = False) -> TrialReply:
        """A trial that failed after every rank had reported its steps is measured, without the rest."""
        self._trial = None
        if isinstance(outcome, Measurement) or len(trial.measured) < len(trial.request.ranks):
            return TrialReply(outcome=outcome, is_broken=is_broken)
        merged = self._merge([trial.measured[rank] for rank in trial.request.ranks])
        if isinstance(merged, Measurement):
            lost = (
                f"incomplete: once its steps were timed, the trial ended ({outcome.kind}: {outcome.reason})"
            )
            merged = replace(merged, warnings=(*merged.warnings, lost))
        return TrialReply(outcome=merged, is_broken=is_broken or outcome.is_device_lost)

    async def _until(self, condition: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(condition()))

    async def _within(self, limit_s: float, condition: Callable[[], object]) -> bool:
        try:
            await asyncio.wait_for(self._until(condition), limit_s)
        except TimeoutError:
            return bool(condition())
        return True
