import random

import pytest

from planner.verify.betting import Bets


def looks_until_certain(bets: Bets, share_beyond: float, look_count: int, rng: random.Random) -> int | None:
    for look in range(1, look_count + 1):
        bets.add(is_beyond=rng.random() < share_beyond)
        if bets.is_certain:
            return look
    return None


@pytest.mark.parametrize("allowed", [0.2, 0.05])
def test_false_alarms_stay_under_the_stated_rate_even_at_the_limit_itself(allowed: float) -> None:
    rng = random.Random(1)
    alarms = sum(looks_until_certain(Bets(allowed), 0.5, 400, rng) is not None for _ in range(500))
    assert 0 < alarms <= allowed * 500


def test_values_within_the_limit_never_alarm_however_long() -> None:
    rng = random.Random(2)
    assert looks_until_certain(Bets(0.01), 0.3, 20_000, rng) is None


def test_values_all_beyond_the_limit_are_certain_after_thirteen() -> None:
    assert looks_until_certain(Bets(0.01 / 3), 1.0, 100, random.Random(3)) == 13


def test_a_late_change_is_noticed_as_soon_as_an_early_one_nearly() -> None:
    bets = Bets(0.01 / 3)
    for _ in range(10_000):
        bets.add(is_beyond=False)
    assert looks_until_certain(bets, 1.0, 100, random.Random(4)) <= 24


def test_certainty_does_not_go_away() -> None:
    bets = Bets(0.1)
    for _ in range(20):
        bets.add(is_beyond=True)
    for _ in range(100):
        bets.add(is_beyond=False)
    assert bets.is_certain
