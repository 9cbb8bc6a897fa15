"""The only place that rounds and converts units. In: seconds, bytes, dollars, fractions. Out: text.

``_up`` and ``_down`` round to the safe side, for limits that a reader is told to set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `planner catalog` formats prices and should not load the estimator for it
    from planner.estimate.values import Estimate

Show = Callable[[float], str]

KIB = 1024.0
GIB = KIB**3
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
UNKNOWN = "unknown"
_CENT_USD = 0.01
_WHOLE_USD = 1000.0  # from here on cents say nothing
_DAYS_FROM_S = 3 * DAY_S
_TENS = 10.0
_SLACK = 1e-9  # so that rounding up leaves what is already round


def usd(amount: float | None) -> str:
    """Dollars: cents up to $1,000, two significant digits below a cent."""
    if amount is None:
        return UNKNOWN
    if amount < 0:
        return f"-{usd(-amount)}"
    if amount == 0:
        return "$0.00"
    if amount < _CENT_USD:
        return f"${significant(amount, 2)}"
    return f"${amount:,.2f}" if amount < _WHOLE_USD else f"${amount:,.0f}"


def usd_limit(amount: float | None) -> str:
    """A sum that a person set: no cents where there are none."""
    if amount is None:
        return UNKNOWN
    return f"${amount:,.0f}" if amount == round(amount) else usd(amount)


def usd_up(amount: float) -> str:
    """Dollars rounded up to the cent, or the dollar from $1,000 on."""
    step = _CENT_USD if amount < _WHOLE_USD else 1.0
    return usd(math.ceil(amount / step - _SLACK) * step)


def usd_per_hour(amount: float) -> str:
    """An hourly price; cheap spot instances need a third digit."""
    return f"{usd(amount)}/h" if amount >= 1 else f"${amount:.3f}/h"


def usd_terms(amounts: Sequence[float], total: float) -> list[str]:
    """Terms of ``total`` in its unit (`usd_part`), rounded so that they add up to it as it is shown.

    Largest remainder method: each term is rounded down, and the units still missing go to the terms that
    lost most.
    """
    per_usd = 10.0 ** _digits_of(total)
    units = [amount * per_usd for amount in amounts]
    shown = [math.floor(one + _SLACK) for one in units]
    missing = round(total * per_usd) - sum(shown)
    by_loss = sorted(range(len(units)), key=lambda index: shown[index] - units[index])
    for index in by_loss[:missing]:
        shown[index] += 1
    return [usd_part(one / per_usd, total) for one in shown]


def usd_part(amount: float, total: float) -> str:
    """A part of ``total``, or all of it, with as many digits as suit the whole."""
    digits = _digits_of(total)
    return f"${round(amount * 10.0**digits) / 10.0**digits:,.{digits}f}"


def _digits_of(total_usd: float) -> int:
    return 4 if total_usd < 1 else 2 if total_usd < _WHOLE_USD else 0


def duration(seconds: float | None) -> str:
    """Milliseconds to days, in the unit a person would use."""
    if seconds is None:
        return UNKNOWN
    if 0 < seconds < 1:
        return f"{significant(seconds * 1000, 3)} ms"
    if seconds < MINUTE_S:
        return f"{significant(seconds, 3)} s"
    if seconds < _TENS * MINUTE_S:
        minutes, rest_s = divmod(round(seconds), 60)
        return f"{minutes} min {rest_s} s" if rest_s else f"{minutes} min"
    if seconds < HOUR_S - MINUTE_S / 2:
        return f"{seconds / MINUTE_S:.0f} min"
    if seconds < _DAYS_FROM_S:
        return f"{significant(seconds / HOUR_S, 3)} h"
    return f"{significant(seconds / DAY_S, 3)} days"


def duration_up(seconds: float) -> str:
    """Rounded up to the tenth of the unit shown: what a deadline must allow."""
    if seconds < HOUR_S:
        return f"{math.ceil(seconds / MINUTE_S - _SLACK)} min"
    unit_s, name = (HOUR_S, "h") if seconds < _DAYS_FROM_S else (DAY_S, "days")
    return f"{math.ceil(seconds / unit_s * _TENS - _SLACK) / _TENS:,g} {name}"


def size(amount: float | None) -> str:
    """Bytes in GiB, or MiB below a tenth of one."""
    if amount is None:
        return UNKNOWN
    gib = amount / GIB
    if 0 < gib < 1 / _TENS:
        return f"{significant(amount / KIB**2, 3)} MiB"
    return f"{gib:.1f} GiB" if gib < KIB else f"{gib:,.0f} GiB"


def percent(fraction: float | None) -> str:
    """A share; one decimal below ten per cent."""
    if fraction is None:
        return UNKNOWN
    value = fraction * 100
    if abs(value) < _TENS and round(value, 1) != round(value):
        return f"{value:.1f}%"
    return f"{value:.0f}%"


def plus_minus(fraction: float) -> str:
    """A half width as a share."""
    return f"\N{PLUS-MINUS SIGN}{percent(fraction)}"


def ratio(value: float) -> str:
    """A factor: 1.24 times."""
    return f"{significant(value, 3)} times"


def rate(per_s: float, tokens_per_sample: int | None = None) -> str:
    """Samples per second, as tokens where a sample has a known number of them."""
    if tokens_per_sample is None:
        return f"{significant(per_s, 3)} samples/s"
    return f"{count(per_s * tokens_per_sample)} tokens/s"


def count(number: float) -> str:
    """A count: whole up to ten thousand, then thousands, millions and billions."""
    for scale, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k")):
        if number >= scale:
            unit = 1e3 if letter == "k" else scale
            return f"{significant(number / unit, 3)} {letter}"
    return f"{number:,.0f}"


def counted(number: int, what: str) -> str:
    """1 trial, 2 trials."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def whole(number: int) -> str:
    """Every digit, in groups of three."""
    return f"{number:,}"


def times(number: int, what: str) -> str:
    """So many of something."""
    return product([str(number), what])


def product(factors: Sequence[str]) -> str:
    """Factors with a multiplication sign between them."""
    return " \N{MULTIPLICATION SIGN} ".join(factors)


def unbroken(text: str) -> str:
    """The same text with factors that a line break keeps together."""
    return text.replace(
        " \N{MULTIPLICATION SIGN} ", "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}"
    )


def significant(value: float, digits: int) -> str:
    """Plain decimals with so many significant digits; whole numbers keep all of theirs."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    if decimals and "." in text:
        text = text.rstrip("0").rstrip(".")
    return text


def interval(estimate: Estimate, show: Show) -> str:
    """Low to high, the unit once where it is the same."""
    low, high = show(estimate.low), show(estimate.high)
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if unit and high.partition(" ")[2] == unit else f"{low} to {high}"


def day(value: date) -> str:
    """2 June 2025."""
    return f"{value.day} {value:%B %Y}"


def moment(value: datetime) -> str:
    """2 June 2025, 14:03 and the zone where one is known."""
    zone = f" {value:%Z}" if value.tzinfo else ""
    return f"{day(value)}, {value:%H:%M}{zone}"


def span(estimate: Estimate, show: Show) -> str:
    """Low to high in a table's cell, the currency once."""
    low, high = show(estimate.low), show(estimate.high)
    return low if low == high else f"{low}\N{EN DASH}{high.removeprefix('$')}"
