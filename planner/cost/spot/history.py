"""What a record of instances gained and lost says about interruptions and waits of a run.

Instances of one pool are lost in batches, so a run on several of them is interrupted less often than the
losses of single instances suggest. With ``a`` instances up, of which a batch takes ``r``, a run on ``n`` of
them, any as likely as any other, is hit with probability ``1 - C(a - r, n) / C(a, n)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityChange:
    """At one moment instances were gained and lost; ``up_count`` is how many there were just before."""

    at_s: float
    gained: int
    lost: int
    up_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketEstimate:
    """Interruptions of a run on so many instances, with a 95% interval, and its mean wait for capacity.

    The interval is that of a Poisson count; losses that come in waves make the truth less certain.
    """

    instance_count: int
    interruption_count: float  # expected hits in the record
    observed_s: float  # with enough instances up
    interruptions_per_s: float
    low_per_s: float
    high_per_s: float
    wait_s: float


def estimate_market(
    changes: Sequence[CapacityChange], until_s: float, instance_count: int
) -> MarketEstimate | None:
    """From a pool's record up to ``until_s``; None if it never had enough instances."""
    observed_s = hits = shortage_s = 0.0
    shortages = 0
    previous_s, up_count = changes[0].at_s, 0
    for change in (*changes, CapacityChange(at_s=until_s, gained=0, lost=0, up_count=0)):
        length_s = min(change.at_s, until_s) - previous_s
        if up_count >= instance_count:
            observed_s += length_s
        else:
            shortage_s += length_s
        if change.at_s >= until_s:
            break
        if up_count >= instance_count and change.lost:
            hits += hit_probability(up_count, change.lost, instance_count)
        was_enough = up_count >= instance_count
        up_count += change.gained - change.lost
        shortages += was_enough and up_count < instance_count
        previous_s = change.at_s
    if observed_s <= 0:
        return None
    low, high = poisson_interval(hits)
    return MarketEstimate(
        instance_count=instance_count,
        interruption_count=hits,
        observed_s=observed_s,
        interruptions_per_s=hits / observed_s,
        low_per_s=low / observed_s,
        high_per_s=high / observed_s,
        wait_s=shortage_s / max(hits, 1.0) if shortages else 0.0,
    )


def replacement_wait_s(changes: Sequence[CapacityChange], until_s: float, target_count: int) -> float | None:
    """Mean time from the loss of an instance until its replacement, in a pool that wants ``target_count``.

    By Little's law: the instances missing, integrated over time, divided by those lost. None without losses.
    What is missing at the beginning counts as a loss.
    """
    missing_s = 0.0
    losses = max(0, target_count - changes[0].gained)
    previous_s, up_count = changes[0].at_s, 0
    for change in changes:
        missing_s += (change.at_s - previous_s) * max(0, target_count - up_count)
        losses += change.lost
        previous_s, up_count = change.at_s, change.up_count + change.gained - change.lost
    missing_s += (until_s - previous_s) * max(0, target_count - up_count)
    return missing_s / losses if losses else None


def hit_probability(up_count: int, lost: int, instance_count: int) -> float:
    """That a run on ``instance_count`` of ``up_count`` instances has at least one of the ``lost``."""
    if lost >= up_count - instance_count + 1:
        return 1.0
    return 1 - math.comb(up_count - lost, instance_count) / math.comb(up_count, instance_count)


def poisson_interval(count: float) -> tuple[float, float]:
    """95% interval of the mean of a Poisson count (Garwood 1936)."""
    from scipy.special import gammaincinv

    low = float(gammaincinv(count, 0.025)) if count > 0 else 0.0
    return low, float(gammaincinv(count + 1, 0.975))


def changes_of(events: Iterable[tuple[float, int]]) -> tuple[CapacityChange, ...]:
    """Changes from single events, in order: a time and +1 for a gain or -1 for a loss; equal times merge."""
    found: list[CapacityChange] = []
    up_count = 0
    for at_s, change in events:
        if not found or found[-1].at_s != at_s:
            if found:
                up_count += found[-1].gained - found[-1].lost
            found.append(CapacityChange(at_s=at_s, gained=0, lost=0, up_count=up_count))
        last = found[-1]
        found[-1] = CapacityChange(
            at_s=at_s,
            gained=last.gained + (change > 0),
            lost=last.lost + (change < 0),
            up_count=last.up_count,
        )
    return tuple(found)
