"""Rounding and units, at the one place where they happen."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reports import formats
from tests.builders import GIB, make_estimate


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unknown"),
        (0.0, "$0.00"),
        (0.00421, "$0.0042"),
        (0.07, "$0.07"),
        (12.345, "$12.35"),
        (999.99, "$999.99"),
        (1234.5, "$1,234"),
        (-3.0, "-$3.00"),
    ],
)
def test_dollars(amount: float | None, text: str) -> None:
    assert formats.usd(amount) == text


@pytest.mark.parametrize(("amount", "text"), [(500.0, "$500"), (19.5, "$19.50"), (None, "unknown")])
def test_a_limit_has_cents_only_where_it_has_some(amount: float | None, text: str) -> None:
    assert formats.usd_limit(amount) == text


@pytest.mark.parametrize(("amount", "text"), [(47.441, "$47.45"), (47.45, "$47.45"), (1234.2, "$1,235")])
def test_a_needed_budget_is_never_rounded_down(amount: float, text: str) -> None:
    assert formats.usd_up(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0.0826, "82.6 ms"),
        (2.668, "2.67 s"),
        (72.0, "1 min 12 s"),
        (300.0, "5 min"),
        (2940.0, "49 min"),
        (3599.0, "1 h"),
        (9468.0, "2.63 h"),
        (86_400.0, "24 h"),
        (604_800.0, "7 days"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(61.0, "2 min"), (34_452.1, "9.6 h"), (3600.0, "1 h"), (400_000.0, "4.7 days")]
)
def test_a_needed_deadline_is_never_rounded_down(seconds: float, text: str) -> None:
    assert formats.duration_up(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unknown"),
        (0, "0.0 GiB"),
        (20 * 1024**2, "20 MiB"),
        (6 * GIB, "6.0 GiB"),
        (2048 * GIB, "2,048 GiB"),
    ],
)
def test_memory(amount: float | None, text: str) -> None:
    assert formats.size(amount) == text


@pytest.mark.parametrize(
    ("fraction", "text"), [(None, "unknown"), (0.9, "90%"), (0.0234, "2.3%"), (0.02, "2%"), (-0.05, "-5%")]
)
def test_shares(fraction: float | None, text: str) -> None:
    assert formats.percent(fraction) == text


def test_rates_become_tokens_where_a_sample_has_some() -> None:
    assert formats.rate(64.04) == "64 samples/s"
    assert formats.rate(1234.0) == "1,234 samples/s"
    assert formats.rate(24.0, 1024) == "24.6 k tokens/s"
    assert formats.rate(1.0, 512) == "512 tokens/s"


@pytest.mark.parametrize(
    ("number", "text"),
    [(9600, "9,600"), (24_576, "24.6 k"), (124e6, "124 M"), (9.83e9, "9.83 B"), (2e12, "2 T")],
)
def test_counts(number: float, text: str) -> None:
    assert formats.count(number) == text


def test_an_interval_says_its_unit_once() -> None:
    assert formats.interval(make_estimate(10.0, 0.2), formats.duration) == "8 to 12 s"
    assert formats.interval(make_estimate(3600.0, 0.5), formats.duration) == "30 min to 1.5 h"
    assert formats.interval(make_estimate(10.0, 0.2), formats.usd) == "$8.00 to $12.00"
    assert formats.interval(make_estimate(10.0), formats.usd) == "$10.00"
    assert formats.span(make_estimate(10.0, 0.2), formats.usd) == "$8.00\N{EN DASH}12.00"


def test_dates() -> None:
    assert formats.day(date(2025, 6, 2)) == "2 June 2025"
    assert formats.moment(datetime(2025, 6, 2, 14, 3, tzinfo=UTC)) == "2 June 2025, 14:03 UTC"


@given(st.lists(st.floats(0.0, 900.0), min_size=1, max_size=8))
def test_shown_terms_add_up_to_the_shown_total(amounts: list[float]) -> None:
    total_usd = sum(amounts)
    shown, total = formats.usd_terms(amounts, total_usd), formats.usd_part(total_usd, total_usd)
    unit = 1e-4 if total_usd < 1 else 0.01 if total_usd < 1000 else 1.0
    units = [round(float(one.strip("$").replace(",", "")) / unit) for one in shown]
    whole = round(float(total.strip("$").replace(",", "")) / unit)
    assert sum(units) == whole
    assert all(abs(one - amount / unit) <= 1 for one, amount in zip(units, amounts, strict=True))
    assert abs(whole - total_usd / unit) <= 0.5 + 1e-6


@given(st.floats(0.001, 1e6))
def test_rounding_up_never_falls_short(amount: float) -> None:
    assert float(formats.usd_up(amount).strip("$").replace(",", "")) >= amount * (1 - 1e-9)
