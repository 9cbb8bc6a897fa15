"""The history of prices: a row for each change, never a lost or a doubled one."""

import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Thread

import pytest

from catalogs.errors import CatalogError
from catalogs.history import read_history, record_prices
from catalogs.offers import Offer
from tests.builders import make_offer

FIRST, SECOND, THIRD = date(2026, 11, 1), date(2026, 11, 8), date(2026, 11, 15)
L4 = make_offer(price_usd_per_hour=0.80, as_of=FIRST)
H100 = make_offer("H100-SXM5-80GB", 3.0, provider="aws", as_of=FIRST)


def at(offer: Offer, usd_per_hour: float, day: date) -> Offer:
    return replace(offer, price_usd_per_hour=usd_per_hour, as_of=day)


def points(path: Path, gpu: str) -> list[tuple[date, float | None, float | None]]:
    return [(point.as_of, point.usd_per_hour, point.change_fraction) for point in read_history(path, [gpu])]


def test_a_row_is_added_for_a_change_and_none_for_the_same_price(tmp_path: Path) -> None:
    path = tmp_path / "new" / "prices.db"
    assert read_history(path, ["L4-24GB"]) == ()
    assert record_prices(path, [L4, H100], [at(L4, 0.60, SECOND), H100], ["gcp"], SECOND) == 3
    assert record_prices(path, [at(L4, 0.60, SECOND)], [at(L4, 0.60, THIRD), H100], ["gcp"], THIRD) == 0
    assert points(path, "L4-24GB") == [(FIRST, 0.80, None), (SECOND, 0.60, pytest.approx(-0.25))]
    assert points(path, "H100-SXM5-80GB") == [(FIRST, 3.0, None)]


def test_what_a_provider_that_was_read_no_longer_offers_is_gone_and_may_return(tmp_path: Path) -> None:
    path = tmp_path / "prices.db"
    record_prices(path, [L4, H100], [], ["gcp"], SECOND)
    record_prices(path, [], [at(L4, 0.90, THIRD)], ["gcp"], THIRD)
    assert points(path, "L4-24GB") == [(FIRST, 0.80, None), (SECOND, None, None), (THIRD, 0.90, None)]
    assert points(path, "H100-SXM5-80GB") == [(FIRST, 3.0, None)]


def test_an_older_table_in_use_does_not_take_back_what_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "prices.db"
    record_prices(path, [], [at(L4, 0.60, SECOND)], ["gcp"], SECOND)
    assert record_prices(path, [L4], [at(L4, 0.60, SECOND)], ["gcp"], SECOND) == 0


def test_two_writers_at_a_time_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "prices.db"
    offers = [replace(L4, instance_type=f"box-{number}") for number in range(200)]

    def write() -> None:
        for price in (0.5, 0.6, 0.7):
            record_prices(path, [], [at(offer, price, SECOND) for offer in offers], ["gcp"], SECOND)

    writers = [Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = read_history(path, ["L4-24GB"])
    assert {point.instance_type for point in found} == {offer.instance_type for offer in offers}
    assert all(point.usd_per_hour != point.previous_usd_per_hour for point in found)


def test_a_write_that_is_cut_off_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "prices.db"
    record_prices(path, [L4], [L4], ["gcp"], FIRST)
    killed = (
        "import os, sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('PRAGMA cache_size = 1')\n"  # so that it reaches the disk before the end
        "database.execute('BEGIN IMMEDIATE')\n"
        "rows = [(1, '2026-11-08', 0.1 * n) for n in range(20_000)]\n"
        "database.executemany('INSERT INTO price (offer, as_of, usd_per_hour) VALUES (?, ?, ?)', rows)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", killed, str(path)], check=False).returncode == -9
    assert points(path, "L4-24GB") == [(FIRST, 0.80, None)]
    assert record_prices(path, [], [at(L4, 0.60, SECOND)], ["gcp"], SECOND) == 1


def test_a_file_that_is_no_history_is_named(tmp_path: Path) -> None:
    path = tmp_path / "prices.db"
    path.write_text("provider,price\n" * 100)
    with pytest.raises(
        CatalogError, match=r"prices\.db: no price history can be kept there: .*not a database"
    ):
        read_history(path, ["L4-24GB"])
