"""How the steps of a run on a rented GPU share its time, and what they start."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.gpu_run import SHARES, arguments_of, limits_s

ROOT = Path(__file__).parents[2]


def test_a_step_alone_has_all_of_the_time_and_two_share_it() -> None:
    assert limits_s(["claims"], 10.0) == {"claims": pytest.approx(600.0)}
    both = limits_s(["replay", "record"], 8.0)
    assert list(both) == ["record", "replay"]  # in the order of what is worth most
    assert sum(both.values()) == pytest.approx(480.0)


def test_no_step_takes_more_than_its_share_of_a_run_of_all() -> None:
    assert limits_s(list(SHARES), 10.0) == {
        name: pytest.approx(600 * share) for name, share in SHARES.items()
    }


@pytest.mark.parametrize("step", SHARES)
def test_what_a_step_starts_is_there(step: str) -> None:
    given = argparse.Namespace(out=Path("out"), workloads=["mlp:tiny"], device="cpu", tiny=True)
    arguments = arguments_of(step, given, 100.0)
    paths = [one for one in arguments if one.startswith("tests/")]
    paths += [one.replace(".", "/") + ".py" for one in arguments if one.startswith("benchmarks.")]
    assert arguments[0] == "-c" or paths
    assert all((ROOT / one).exists() for one in paths)
