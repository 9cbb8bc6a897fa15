"""Why a trial's workers ended, from what they left behind. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from trials.trial import Failure, FailureKind, TrialConfig
from trials.workers.crash_record import CrashRecord

# Ray's memory monitor ends a worker before the kernel would
# (https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html).
_RAY_MEMORY_WORDS = ("low on memory", "NODE_OUT_OF_MEMORY")


def explain_loss(
    config: TrialConfig,
    *,
    ranks: Sequence[int],
    limit_s: float,
    records: Sequence[CrashRecord],
    failed: Mapping[int, Failure],
    followers: Collection[int],
    lost: Mapping[int, str],
) -> Failure:
    """The failure of a trial whose workers did not all answer. ``trial_s`` is left to whoever timed it.

    A cause that a rank reported of itself comes first: the others, silent or not, may have ended of it. Then
    what the silent ones left; then what ranks saw of others.

    Args:
        config: the trial's.
        ranks: of the group's workers, those that take part in it.
        limit_s: its time limit.
        records: of this trial, from every rank that could be asked.
        failed: what ranks reported before they ended, the first one first.
        followers: ranks that ended themselves because another had failed.
        lost: what Ray Train said of ranks, by rank.
    """
    finished = {record.rank for record in records if record.is_finished}
    suspects = set(ranks) - failed.keys() - set(followers) - finished
    mine = [record for record in records if record.rank in suspects]
    causes = {rank: failure for rank, failure in failed.items() if not failure.kind.is_symptom}
    told = causes or ({} if suspects else failed)
    if told:
        rank, failure = next(iter(told.items()))
        return replace(failure, reason=f"{failure.reason} (rank {rank} of {len(ranks)})", trial_s=0.0)
    kind, reason = _reason(mine, suspects, len(ranks), limit_s, lost)
    return Failure(
        config=config, kind=kind, reason=reason, trial_s=0.0, detail=_detail(records, failed, lost)
    )


def is_low_memory(text: str) -> bool:
    """Whether Ray says that it ended a worker because the node's memory ran low."""
    return any(words in text for words in _RAY_MEMORY_WORDS)


def first_line(text: str) -> str:
    """The first line of a text that is not blank, stripped."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def _reason(
    records: Sequence[CrashRecord],
    suspects: Collection[int],
    count: int,
    limit_s: float,
    lost: Mapping[int, str],
) -> tuple[FailureKind, str]:
    if any(record.stacks for record in records):
        return FailureKind.TIMED_OUT, f"not done within its limit of {limit_s:.0f} s"
    who = _ranks(suspects, count)
    if any(record.kernel_kill_count for record in records):
        return FailureKind.OUT_OF_MEMORY, f"the kernel killed {who} because the host's memory ran out"
    if any(map(is_low_memory, lost.values())):
        return FailureKind.OUT_OF_MEMORY, f"Ray stopped {who} because the host's memory ran low"
    return (
        FailureKind.WORKER_LOST,
        f"{who} ended without a word: killed, or ended by the model file (os._exit, a crash in native code)",
    )


def _ranks(ranks: Collection[int], count: int) -> str:
    if count == 1 or not ranks:
        return "the worker"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, sorted(ranks)))} of {count}"


def _detail(records: Sequence[CrashRecord], failed: Mapping[int, Failure], lost: Mapping[int, str]) -> str:
    parts = [f"stacks of rank {record.rank}:\n{record.stacks}" for record in records if record.stacks]
    parts += [f"rank {rank} reported: {one.reason}\n{one.detail}" for rank, one in failed.items()]
    parts += [f"Ray on rank {rank}: {text}" for rank, text in lost.items()]
    return "\n".join(parts)
