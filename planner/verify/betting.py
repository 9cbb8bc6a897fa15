"""A sequential test that may be looked at after every value, for as long as one likes.

Testing by betting (Shafer, "Testing by betting", JRSS A 2021; Waudby-Smith and Ramdas, "Estimating means of
bounded random variables by betting", JRSS B 2024). A player starts with one dollar and before each value bets
a share of what he has, at even odds, that it will lie beyond the limit. If beyond comes at most every second
time, whatever came before, no way of betting makes his capital grow in expectation, so the probability that
it ever reaches 1/a is at most a (Ville, 1939). Only which side of the limit a value lies on counts: outliers
and heavy tails do not matter, and the values need no distribution.
"""

from __future__ import annotations

from collections import deque

_MEMORY = 16  # values that the next bet is chosen from: short, so that a late change is noticed
_STAKE_MAX = 0.8  # so that one value on the other side leaves something to go on with


class Bets:
    """Whether values lie beyond a limit more often than not.

    The probability that ``is_certain`` ever becomes true although they do not is ``false_alarm_fraction``.
    """

    def __init__(self, false_alarm_fraction: float) -> None:
        self._goal = 1.0 / false_alarm_fraction
        self._capital = 1.0
        self._last: deque[bool] = deque(maxlen=_MEMORY)
        self.is_certain = False

    def add(self, *, is_beyond: bool) -> None:
        """The next value. Once certain, always certain."""
        stake = self._stake()
        self._capital *= 1 + stake if is_beyond else 1 - stake
        self._last.append(is_beyond)
        self.is_certain = self.is_certain or self._capital >= self._goal

    def _stake(self) -> float:
        """The share of the capital that suits the last values, by Laplace's rule; none up to a half."""
        share = (sum(self._last) + 1) / (len(self._last) + 2)
        return min(max(2 * share - 1, 0.0), _STAKE_MAX)
