"""What the steps of a real run say of its plan: has the speed left the stated interval, and what is the bill?

A *look* is about five seconds of steps (one step where steps take longer). Three bets are held on the looks:
that they lie above the stated interval of the step time, below it (each by more than a tolerance), or, once
the run has a pace of its own, more than a tenth above that pace. See betting.py for why no look is
one too many: if, whatever came before, every look is at least as likely within its limit as beyond it, the
probability of any false alarm in the whole run is at most ``FALSE_ALARM_FRACTION``. Looks are as long as
they are so that what slows one step does not slow several looks.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from enum import StrEnum

from planner.estimate.values import Basis, Estimate
from planner.verify.betting import Bets
from planner.verify.run_plan import RunPlan
from trials.api import half_width

FALSE_ALARM_FRACTION = 0.01  # of runs within their limits in which any of the three bets is ever won
LOOK_S = 5.0
WARMUP_STEPS = 5  # of every attempt; the look with the last of them is not judged
TOLERANCE_FRACTION = 0.02  # beyond the interval: clocks and temperature move a pace by this for minutes
SETTLED_LOOKS = 16  # more than an alarm needs at least: from here on "as stated" may be said
PACE_LOOKS = 24  # whose median is the run's own pace
SLOWED_RATIO = 1.1
_SAME_PRICE_FRACTION = 1e-3
_GROUPS = 10


class Finding(StrEnum):
    """What the looks say of the speed."""

    TOO_EARLY = "too early to tell"
    AS_STATED = "as stated"
    SLOWER = "slower than stated"
    FASTER = "faster than stated"
    SLOWED = "slower than at its start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Some consecutive steps of the real run, and a line of its log. Times are since the epoch."""

    begun_at_s: float  # when this attempt began; another value is another attempt, after an interruption
    at_s: float  # when the last of these steps ended
    step: int  # optimizer steps done in all
    step_count: int  # in this look
    step_time_s: float  # the typical one: median, or mean where only the mean is known
    loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the run stands against its plan. Estimates are at 95%, from the run's own looks; None too early."""

    finding: Finding
    step: int
    look_count: int  # judged
    watched_s: float  # that the judged looks took
    step_time_s: float | None  # the median of the last looks
    duration_s: Estimate | None  # of the whole run, what is over included
    bill_usd: Estimate | None  # the same, at ``price_usd_per_hour``
    price_usd_per_hour: float  # for all instances, now
    is_price_changed: bool
    is_dearer: bool  # the bill's interval lies wholly above the plan's
    is_cheaper: bool  # or below
    is_over_budget: bool  # the whole interval is
    is_late: bool

    @property
    def is_bill_off(self) -> bool:
        """Dearer than stated, or beyond the budget or the deadline."""
        return self.is_dearer or self.is_over_budget or self.is_late

    @property
    def is_off_plan(self) -> bool:
        """Slower or dearer than stated, or beyond a limit."""
        return self.is_bill_off or self.finding in {Finding.SLOWER, Finding.SLOWED}


class Evidence:
    """What the looks of a run add up to. Pure: the command and the watch feed it the same way.

    ``warmup_steps`` of every attempt are not judged.
    """

    def __init__(self, run: RunPlan, warmup_steps: int = WARMUP_STEPS) -> None:
        self.run = run
        self._warmup_steps = warmup_steps
        share = FALSE_ALARM_FRACTION / 3
        self._slower, self._faster, self._slowed = Bets(share), Bets(share), Bets(share)
        self._typical_s: list[float] = []  # of the judged looks
        self._paid: list[tuple[float, int]] = []  # seconds and steps of the judged looks, pauses included
        self._low_s = run.step_time_s.low / (1 + TOLERANCE_FRACTION)
        self._high_s = run.step_time_s.high * (1 + TOLERANCE_FRACTION)
        self._pace_s: float | None = None
        self._is_settled = False
        self._held_s = 0.0
        self._step = 0
        self._attempt: tuple[float, int] | None = None  # when it began, and after which step
        self._last_at_s = 0.0

    def add(self, look: Look) -> None:
        """The next look."""
        if self._attempt is None or self._attempt[0] != look.begun_at_s:
            self._attempt = look.begun_at_s, look.step - look.step_count
            self._last_at_s = look.begun_at_s
            self._held_s += self.run.provisioning_s
        elapsed_s = look.at_s - self._last_at_s
        self._held_s += elapsed_s
        self._last_at_s, self._step = look.at_s, look.step
        if look.step - look.step_count - self._attempt[1] < self._warmup_steps:
            return
        self._paid.append((elapsed_s, look.step_count))
        self._typical_s.append(look.step_time_s)
        self._slower.add(is_beyond=look.step_time_s > self._high_s)
        self._faster.add(is_beyond=look.step_time_s < self._low_s)
        self._is_settled = self._is_settled or self._has_settled()
        if self._pace_s is not None:
            self._slowed.add(is_beyond=look.step_time_s > self._pace_s * SLOWED_RATIO)
        elif len(self._typical_s) == PACE_LOOKS:
            self._pace_s = statistics.median(self._typical_s)

    @property
    def look_count(self) -> int:
        """Looks that were judged."""
        return len(self._typical_s)

    @property
    def finding(self) -> Finding:
        """What is known of the speed by now."""
        if self._slower.is_certain:
            return Finding.SLOWER
        if self._slowed.is_certain:
            return Finding.SLOWED
        if self._faster.is_certain:
            return Finding.FASTER
        return Finding.AS_STATED if self._is_settled else Finding.TOO_EARLY

    def _has_settled(self) -> bool:
        last = self._typical_s[-SETTLED_LOOKS:]
        return len(last) == SETTLED_LOOKS and self._low_s <= statistics.median(last) <= self._high_s

    def verdict(self, price_usd_per_hour: float | None = None) -> Verdict:
        """All of it, at today's price for all instances; the planned one where none is given."""
        run, target = self.run, self.run.target
        price = run.price_usd_per_hour if price_usd_per_hour is None else price_usd_per_hour
        duration_s = self._duration_s()
        bill_usd = None if duration_s is None else self._bill_usd(duration_s, price)
        return Verdict(
            finding=self.finding,
            step=self._step,
            look_count=len(self._typical_s),
            watched_s=sum(seconds for seconds, _ in self._paid),
            step_time_s=statistics.median(self._typical_s[-SETTLED_LOOKS:]) if self._typical_s else None,
            duration_s=duration_s,
            bill_usd=bill_usd,
            price_usd_per_hour=price,
            is_price_changed=abs(price / run.price_usd_per_hour - 1) > _SAME_PRICE_FRACTION,
            is_dearer=_is_above(bill_usd, run.total_usd.high),
            is_cheaper=bill_usd is not None and bill_usd.high < run.total_usd.low,
            is_over_budget=_is_above(bill_usd, target.budget_usd),
            is_late=_is_above(duration_s, target.deadline_s),
        )

    def _bill_usd(self, duration_s: Estimate, price: float) -> Estimate:
        return Estimate(
            low=self.run.bill_usd(duration_s.low, price),
            expected=self.run.bill_usd(duration_s.expected, price),
            high=self.run.bill_usd(duration_s.high, price),
            basis=Basis.MEASURED,
        )

    def _duration_s(self) -> Estimate | None:
        """Held so far, and the rest of the steps at what a step has taken so far, pauses included.

        The interval is that of the mean of ten groups of consecutive looks, which noise that lasts for a few
        looks does not narrow.
        """
        if len(self._paid) < _GROUPS:
            return None
        size = len(self._paid) // _GROUPS
        groups = [self._paid[-(index + 1) * size : -index * size or None] for index in range(_GROUPS)]
        means = [sum(one[0] for one in group) / sum(one[1] for one in group) for group in groups]
        half_s = half_width(means)
        middle_s = sum(one[0] for one in self._paid) / sum(one[1] for one in self._paid)
        left = max(self.run.step_count - self._step, 0)
        return Estimate(
            low=self._held_s + left * max(middle_s - half_s, 0.0),
            expected=self._held_s + left * middle_s,
            high=self._held_s + left * (middle_s + half_s),
            basis=Basis.MEASURED,
        )


def _is_above(estimate: Estimate | None, limit: float | None) -> bool:
    return estimate is not None and limit is not None and estimate.low > limit
