"""A record of a spot pool, cut to a window and closed to a ring, as a market that runs can be replayed on.

Data: JF-D/Parcae, p3trace.csv: 32 p3 spot instances of an AWS pool over 11.4 hours, one row for each
instance gained or lost. At the end of the window those that are up go on as those that are up at its
beginning, so that runs can start anywhere and none is cut short; the seam interrupts nobody.
"""

from __future__ import annotations

import csv
import math
import random
from dataclasses import dataclass
from pathlib import Path

from planner.cost.spot.history import CapacityChange, MarketEstimate, changes_of, estimate_market

_SLACK_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One instance: up from, and lost at. ``next_index`` is the life that it becomes at the seam."""

    from_s: float
    until_s: float
    is_lost: bool  # False: up at the end of the window
    next_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Lives within a window of ``length_s``, times from its beginning; ``slots`` are chains of lives."""

    length_s: float
    lives: tuple[Life, ...]
    slots: tuple[tuple[int, ...], ...]
    next_slot: tuple[int, ...]  # that a slot goes on as at the seam

    def changes(self) -> tuple[CapacityChange, ...]:
        """Gains and losses in order; what is up at the beginning counts as gained there."""
        events = [(one.from_s, +1) for one in self.lives]
        events += [(one.until_s, -1) for one in self.lives if one.is_lost]
        return changes_of(sorted(events, key=lambda one: (one[0], -one[1])))

    def estimate(self, instance_count: int) -> MarketEstimate:
        """Rate of interruptions and waits of a run on so many instances."""
        found = estimate_market(self.changes(), self.length_s, instance_count)
        assert found is not None
        return found


def read_pool(path: Path, begin_fraction: float = 0.0, end_fraction: float = 1.0) -> Pool:
    """The part of the record between two fractions of its length."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [(float(at) / 1e3, kind, name) for at, kind, name in csv.reader(lines)]
    length_s = rows[-1][0]
    begin_s, end_s = begin_fraction * length_s, end_fraction * length_s
    up_since: dict[str, float] = {}
    found: list[tuple[float, float, bool]] = []
    for at_s, kind, name in rows:
        if kind == "add":
            up_since[name] = at_s
        else:
            found.append((up_since.pop(name), at_s, True))
    found += [(since_s, end_s, False) for since_s in up_since.values()]
    lives = [
        Life(
            from_s=max(0.0, since_s - begin_s),
            until_s=min(until_s, end_s) - begin_s,
            is_lost=is_lost and until_s < end_s,
        )
        for since_s, until_s, is_lost in found
        if until_s > begin_s and since_s < end_s
    ]
    return _with_seam(sorted(lives, key=lambda one: one.from_s), end_s - begin_s)


def _with_seam(lives: list[Life], length_s: float) -> Pool:
    """Joins the ends of the window, and chains lives into slots: the first lost is the first replaced."""
    starting = [index for index, one in enumerate(lives) if one.from_s == 0]
    ending = [index for index, one in enumerate(lives) if not one.is_lost]
    joined = dict(zip(ending, starting, strict=False))
    linked = tuple(
        Life(from_s=one.from_s, until_s=one.until_s, is_lost=one.is_lost, next_index=joined.get(index))
        for index, one in enumerate(lives)
    )
    slots: list[list[int]] = []
    free: list[tuple[float, int]] = []  # when a slot was lost, and which
    for index, one in enumerate(linked):
        open_slots = sorted(entry for entry in free if entry[0] <= one.from_s)
        if open_slots:
            free.remove(open_slots[0])
            number = open_slots[0][1]
            slots[number].append(index)
        else:
            number = len(slots)
            slots.append([index])
        if one.is_lost:
            free.append((one.until_s, number))
    slot_of = {index: number for number, one in enumerate(slots) for index in one}
    following = {slot_of[index]: slot_of[after] for index, after in joined.items()}
    rest = [number for number in range(len(slots)) if number not in set(following.values())]
    next_slot = [following[number] if number in following else rest.pop(0) for number in range(len(slots))]
    return Pool(
        length_s=length_s,
        lives=linked,
        slots=tuple(tuple(one) for one in slots),
        next_slot=tuple(next_slot),
    )


class PoolMarket:
    """A run on any ``instance_count`` instances of the pool; it waits until so many are up."""

    def __init__(self, pool: Pool, instance_count: int, start_s: float, chance: random.Random) -> None:
        self._pool = pool
        self._count = instance_count
        self._start_s = start_s
        self._chance = chance

    def available_at_s(self, time_s: float) -> float:
        """See `planner.cost.spot.interruptions.Market`."""
        now_s = time_s
        for _ in range(100_000):
            if len(self._up(now_s)) >= self._count:
                return now_s
            now_s = self._next_gain_s(now_s)
        raise AssertionError(f"the pool never has {self._count} instances")

    def interrupted_at_s(self, time_s: float) -> float:
        """See `planner.cost.spot.interruptions.Market`."""
        place_s = self._place(time_s)
        taken = self._chance.sample(self._up(time_s), self._count)
        return time_s + min(self._left_s(index, place_s) for index in taken)

    def _left_s(self, index: int, place_s: float) -> float:
        life = self._pool.lives[index]
        left_s = life.until_s - place_s
        for _ in range(1000):
            if life.is_lost:
                return left_s
            if life.next_index is None:
                return left_s
            life = self._pool.lives[life.next_index]
            left_s += life.until_s
        return left_s

    def _place(self, time_s: float) -> float:
        return (self._start_s + time_s) % self._pool.length_s

    def _up(self, time_s: float) -> list[int]:
        place_s = self._place(time_s) + _SLACK_S
        return [index for index, one in enumerate(self._pool.lives) if one.from_s <= place_s < one.until_s]

    def _next_gain_s(self, time_s: float) -> float:
        place_s = self._place(time_s) + _SLACK_S
        later = [one.from_s for one in self._pool.lives if one.from_s > place_s]
        next_s = min(later) if later else self._pool.length_s
        return time_s + max(1e-6, next_s - place_s + 1e-6)


class SlotMarket:
    """A run on one instance that, when lost, waits for the replacement of just that one."""

    def __init__(self, pool: Pool, slot: int, start_s: float) -> None:
        self._pool = pool
        self._start_s = start_s
        self._slots = [slot]  # by turn of the ring

    def available_at_s(self, time_s: float) -> float:
        """See `planner.cost.spot.interruptions.Market`."""
        turn, place_s = self._turn_and_place(time_s)
        for _ in range(1000):
            for one in self._lives(turn):
                if place_s + _SLACK_S < one.until_s:
                    return turn * self._pool.length_s + max(place_s, one.from_s) - self._start_s
            turn, place_s = turn + 1, 0.0
        return math.inf

    def interrupted_at_s(self, time_s: float) -> float:
        """See `planner.cost.spot.interruptions.Market`."""
        turn, place_s = self._turn_and_place(time_s)
        lives = self._lives(turn)
        life = next(one for one in lives if one.from_s <= place_s + _SLACK_S and place_s < one.until_s)
        while not life.is_lost and life.next_index is not None and turn < 1000:
            turn += 1
            life = self._lives(turn)[0]
        return turn * self._pool.length_s + life.until_s - self._start_s

    def _lives(self, turn: int) -> list[Life]:
        while len(self._slots) <= turn:
            self._slots.append(self._pool.next_slot[self._slots[-1]])
        return [self._pool.lives[index] for index in self._pool.slots[self._slots[turn]]]

    def _turn_and_place(self, time_s: float) -> tuple[int, float]:
        absolute_s = self._start_s + time_s
        turn = int((absolute_s + _SLACK_S) // self._pool.length_s)
        return turn, max(0.0, absolute_s - turn * self._pool.length_s)
