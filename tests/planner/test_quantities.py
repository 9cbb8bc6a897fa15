"""Numbers as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner import quantities
from planner.quantities import NotReadError

GIB = 1024**3


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (quantities.read_count, "300B", 300 * 10**9),
        (quantities.read_count, "1.5M", 1_500_000),
        (quantities.read_count, "2k", 2000),
        (quantities.read_count, "1,000,000", 10**6),
        (quantities.read_count, "1_000", 1000),
        (quantities.read_count, "1e6", 10**6),
        (quantities.read_positive, "2.5", 2.5),
        (quantities.read_positive, "0.5T", 5e11),
        (quantities.read_usd, "$500", 500.0),
        (quantities.read_usd, "1.5k", 1500.0),
        (quantities.read_usd, "$2,500.50", 2500.5),
        (quantities.read_usd_or_zero, "$0", 0.0),
        (quantities.read_fraction, "90%", 0.9),
        (quantities.read_fraction, "0.9", 0.9),
        (quantities.read_bytes, "500", 500 * GIB),
        (quantities.read_bytes, "500GB", 500 * 10**9),
        (quantities.read_bytes, "1.5 TiB", 1536 * GIB),
        (quantities.read_duration_s, "36h", 129_600),
        (quantities.read_duration_s, "90m", 5400),
        (quantities.read_duration_s, "90min", 5400),
        (quantities.read_duration_s, "3d", 259_200),
        (quantities.read_duration_s, "1w", 604_800),
        (quantities.read_duration_s, "1d12h", 129_600),
        (quantities.read_duration_s, "1.5h", 5400),
        (quantities.read_duration_s, "45s", 45),
        (quantities.read_wait_s, "0s", 0),
        (quantities.read_minutes_s, "5", 300),
        (quantities.read_minutes_s, "5m", 300),
        (quantities.read_minutes_s, "2h", 7200),
        (quantities.read_minutes_s, "0", 0),
    ],
)
def test_quantities_are_read_in_the_units_people_write(
    read: Callable[[str], float], text: str, value: float
) -> None:
    assert read(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("read", "text", "right"),
    [
        (quantities.read_count, "300Q", "with k, M, B or T: 300, 2k, 1.5M, 300B"),
        (quantities.read_count, "", "write digits"),
        (quantities.read_count, "1,5", "write digits"),  # neither fifteen nor one and a half
        (quantities.read_count, "1.5", "a whole number"),
        (quantities.read_count, "nan", "a whole number"),
        (quantities.read_count, "-5", "at least 1"),
        (quantities.read_positive, "nan", "positive"),
        (quantities.read_positive, "0", "positive"),
        (quantities.read_zero_or_more, "-1", "zero or more"),
        (quantities.read_usd, "0", "positive number of US dollars"),
        (quantities.read_usd, "-5", "positive number of US dollars"),
        (quantities.read_usd, "inf", "positive number of US dollars"),
        (quantities.read_usd, "2B", "over a billion; give US dollars, not cents"),
        (quantities.read_usd, "500 EUR", "not a number"),
        (quantities.read_fraction, "90", "0.9 or 90%"),
        (quantities.read_bytes, "3 pages", "500GB"),
        (quantities.read_bytes, "-1", "zero or more"),
        (quantities.read_duration_s, "", "36h, 90m, 2d"),
        (quantities.read_duration_s, "36", "36h, 90m, 2d"),
        (quantities.read_duration_s, "-3h", "36h, 90m, 2d"),
        (quantities.read_duration_s, "3 weeks", "36h, 90m, 2d"),
        (quantities.read_duration_s, "0h", "more than zero"),
        (quantities.read_minutes_s, "-1", "zero or more"),
        (quantities.read_minutes_s, "long", "36h, 90m, 2d"),
        (quantities.read_some_minutes_s, "0", "more than zero"),
        (quantities.read_some_minutes_s, "inf", "zero or more"),
    ],
)
def test_what_is_none_is_told_what_is_right(read: Callable[[str], float], text: str, right: str) -> None:
    with pytest.raises(NotReadError) as error:
        read(text)
    assert right in str(error.value)
