"""Other studies of the same storage correct what is predicted between the devices that they ran on."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.__main__ import run
from planner.cli_values import OfferFlags
from planner.commands.answer import estimator_of, report_of
from planner.commands.prices import Prices, read_prices
from planner.estimate import Hardware
from planner.exits import Exit
from planner.study.reading import read_peers, read_study
from planner.study.saved import SavedStudy
from planner.study.store import Study
from tests.builders import make_config, make_measurement, make_target, make_workload
from tests.stored import store_study

SOURCE, TARGET = "L4-24GB", "T4-16GB"


@pytest.fixture(scope="module")
def prices() -> Prices:
    return read_prices(
        OfferFlags(
            catalog=None, prices=(), providers=(), regions=(), gpus=(), is_spot=None, is_reserved=False
        )
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.db'}"


def measured(url: str, name: str, **step_times_s: float) -> Study:
    """A study with one trial on each device."""
    outcomes = [
        make_measurement(make_config(gpu), step_time_s=step_time_s)
        for gpu, step_time_s in step_times_s.items()
    ]
    return store_study(url, name, make_workload(), make_target(), *outcomes)


def expected_s(study: SavedStudy, prices: Prices) -> float:
    """On the device that ``study`` did not run on."""
    hardware = Hardware(gpu=prices.gpus[TARGET], link=prices.gpus[TARGET].link)
    found = estimator_of(study, prices, read_peers(study)).step_time_s(make_config(TARGET), hardware)
    assert found is not None
    return found.expected


def test_studies_on_two_devices_correct_a_third_ones_way_between_them(url: str, prices: Prices) -> None:
    measured(url, "mine", **{SOURCE: 1.0})
    plain_s = expected_s(read_study(url, "mine"), prices)
    for index in range(2):
        measured(url, f"other-{index}", **{SOURCE: 1.0, TARGET: 1.3 * plain_s})
    measured(url, "single", **{SOURCE: 2.0})

    mine = read_study(url, "mine")

    assert list(read_peers(mine)) == [f"other-{index}" for index in range(2)]
    assert 1.05 < expected_s(mine, prices) / plain_s < 1.3


def test_a_report_names_the_studies_that_correct_it(url: str, prices: Prices) -> None:
    measured(url, "mine", **{SOURCE: 1.0})
    measured(url, "other", **{SOURCE: 1.0, TARGET: 3.0})

    report = report_of(read_study(url, "mine"), make_target(), prices)

    assert report.notes[-1] == (
        "What is predicted from one device for another is corrected by what other studies of this storage "
        "measured on both: other."
    )


def test_a_study_of_another_version_is_no_peer(url: str, prices: Prices) -> None:
    mine = measured(url, "mine", **{SOURCE: 1.0})
    old = measured(url, "old", **{SOURCE: 1.0, TARGET: 3.0})
    old.optuna_study.set_user_attr("schema_version", 0)

    assert read_peers(mine) == {}


def test_an_estimate_names_the_studies_that_correct_it(
    url: str, prices: Prices, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(url, "mine", **{SOURCE: 1.0})
    measured(url, "other", **{SOURCE: 1.0, TARGET: 3.0})

    code = run(["estimate", "mine", "--gpu", TARGET, "--storage", url])

    assert code == Exit.PLAN
    assert "corrected by what other studies" in capsys.readouterr().out
