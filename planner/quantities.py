"""Numbers as people write them (300M, $500, 36h, 90%), in base units, or with what is right instead."""

from __future__ import annotations

import math
import re

USD_MAX = 1e9  # above it a unit or a digit is wrong
_NUMBER = re.compile(
    r"([-+]?(?:(?:\d{1,3}(?:[,_]\d{3})+|\d+)\.?\d*|\.\d+)(?:e[-+]?\d+)?)([a-z%]*)", re.IGNORECASE
)
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_BYTES = {"": 1024.0**3} | {
    f"{prefix}{unit}": base**power
    for power, prefix in enumerate("kmgt", start=1)
    for unit, base in (("b", 1000.0), ("ib", 1024.0))
}
_UNIT_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(min|s|m|h|d|w)")


class NotReadError(ValueError):
    """The text is no such quantity; the message is what is right, to stand after the text and a colon."""


def read_number(text: str) -> float:
    """1.5M is 1,500,000. Raises NotReadError."""
    return _scaled(text, _FACTORS, "not a number; write digits, with k, M, B or T: 300, 2k, 1.5M, 300B")


def read_count(text: str) -> int:
    """A whole number from 1 on, 2k for 2,000. Raises NotReadError."""
    number = read_number(text)
    if not math.isfinite(number) or number != int(number):
        raise NotReadError("must be a whole number: 300, 2k, 1.5M, 300B")
    if number < 1:
        raise NotReadError("must be at least 1")
    return int(number)


def read_positive(text: str) -> float:
    """A number over zero. Raises NotReadError."""
    number = read_number(text)
    if not 0 < number < math.inf:
        raise NotReadError("must be a positive number, more than zero")
    return number


def read_zero_or_more(text: str) -> float:
    """A number that is not negative. Raises NotReadError."""
    number = read_number(text)
    if not 0 <= number < math.inf:
        raise NotReadError("must be zero or more")
    return number


def read_usd(text: str) -> float:
    """US dollars over zero, $500 or 1.5k. Raises NotReadError."""
    usd = read_number(text.strip().removeprefix("$"))
    if not 0 < usd < math.inf:
        raise NotReadError("must be a positive number of US dollars")
    if usd > USD_MAX:
        raise NotReadError("over a billion; give US dollars, not cents")
    return usd


def read_usd_or_zero(text: str) -> float:
    """US dollars, none among them. Raises NotReadError."""
    usd = read_number(text.strip().removeprefix("$"))
    if usd < 0:
        raise NotReadError("must be zero or a positive number of US dollars")
    return 0.0 if usd == 0 else read_usd(text)


def read_fraction(text: str) -> float:
    """0.9 or 90%. Raises NotReadError."""
    fraction = _scaled(text, {"": 1.0, "%": 0.01}, "not a share; write 0.9 or 90%")
    if not 0 <= fraction <= 1:
        raise NotReadError("must lie between 0 and 1: 0.9 or 90%")
    return fraction


def read_bytes(text: str) -> int:
    """Bytes of "500" or "500GiB" (GiB), "1.5TB" or "200MiB". Raises NotReadError."""
    size = _scaled(text, _BYTES, "not a size; write GiB, or a unit: 500, 500GB, 1.5TiB")
    if not 0 <= size < math.inf:
        raise NotReadError("must be zero or more")
    return round(size)


def read_duration_s(text: str) -> float:
    """Seconds of "36h", "90m", "3d" or "1d12h". Raises NotReadError, for zero too."""
    seconds = read_wait_s(text)
    if seconds <= 0:
        raise NotReadError("must be more than zero")
    return seconds


def read_wait_s(text: str) -> float:
    """The same, where zero is an answer: 0s."""
    compact = text.strip().lower()
    parts = _DURATION.findall(compact)
    if not parts or _DURATION.sub("", compact).strip():
        raise NotReadError("not a duration; write hours, minutes or days: 36h, 90m, 2d")
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if math.isinf(seconds):
        raise NotReadError("too long to be a duration")
    return seconds


def read_minutes_s(text: str) -> float:
    """Seconds of minutes, "5" or "5m", or of another unit: 2h. Raises NotReadError."""
    try:
        minutes = read_number(text)
    except NotReadError:
        return read_wait_s(text)
    if text.strip()[-1:].lower() in _UNIT_S:  # 5m is five minutes, not five million
        return read_wait_s(text)
    if not 0 <= minutes < math.inf:
        raise NotReadError("must be zero or more")
    return minutes * 60


def read_some_minutes_s(text: str) -> float:
    """The same, but more than zero."""
    seconds = read_minutes_s(text)
    if seconds <= 0:
        raise NotReadError("must be more than zero")
    return seconds


def _scaled(text: str, factors: dict[str, float], right: str) -> float:
    compact = text.strip().replace(" ", "")
    if compact.lower() in ("nan", "inf", "-inf", "+inf", "infinity"):
        return float(compact)
    matched = _NUMBER.fullmatch(compact)
    if matched is None or matched[2].lower() not in factors:
        raise NotReadError(right)
    return float(matched[1].replace(",", "").replace("_", "")) * factors[matched[2].lower()]
