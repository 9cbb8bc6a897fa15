"""Why not that GPU: break-evens that hold when they are put to the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from catalogs.offers import Offer
from planner.__main__ import run
from planner.cost.bill.price_run import Pricer
from planner.exits import Exit
from planner.filters import Filters
from planner.plans.plan import repriced
from planner.plans.recommendation import Recommendation
from planner.plans.why_not import WhyNot, why_not
from planner.reports.why_gpu import why_gpu
from tests.builders import (
    GIB,
    FakeEstimator,
    make_assumptions,
    make_measurement,
    make_offer,
    make_target,
    make_workload,
)
from tests.planner.plans.test_recommend import A100, GPUS, L4, _single, ask, one_config, speeds
from tests.planner.reports.documents import validated
from tests.stored import store_study
from trials.trial import TrialConfig

L4_OFFER = make_offer(price_usd_per_hour=1.0)  # 2,000 s: $0.556
A100_OFFER = make_offer(A100.name, price_usd_per_hour=3.0)  # 1,000 s: $0.833, half as much again
SPEEDS = {"L4": 2.0, "A100": 1.0}


def asked(
    *offers: Offer, estimator: FakeEstimator | None = None, gpu: str = A100.name, **changes: Any
) -> tuple[WhyNot, Recommendation]:
    settings = {"configs_for": _single(one_config), **changes}
    answer = ask(offers, estimator or speeds(**SPEEDS), **settings)
    return why_not(answer, gpu, offers, partial(repriced, pricer=Pricer(answer.terms))), answer


def said(found: WhyNot, answer: Recommendation) -> str:
    return "\n".join(why_gpu(found, answer, GPUS[found.gpu])).replace("\N{MULTIPLICATION SIGN}", "x")


def test_the_price_and_the_speed_that_would_win() -> None:
    found, answer = asked(L4_OFFER, A100_OFFER)
    assert found.price_usd_per_hour == pytest.approx(2.0, rel=1e-3)
    assert found.speedup == pytest.approx(1.5, rel=3e-3)  # billed by the second
    assert found.speedup_of_interval == pytest.approx(1 / 0.7)
    assert not found.is_speedup_within_interval
    text = said(found, answer)
    assert "is rank 2: 1 x box-a100-sxm4-80gb from gcp" in text
    assert "is cheaper by $0.28." in text
    assert "Price: it wins at $2.00/h or less, 33% below the $3.00/h asked" in text
    assert "Speed: it wins at 1.5 times the expected speed, a step of 666 ms for 1 s; that is outside" in text
    assert "Batch: 8 samples at once take up to 2.2 GiB of 78.5 GiB, and 4 such batches" in text


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_the_break_even_price_is_where_the_ranking_turns(share: float) -> None:
    """With provisioning and blocks, so that nothing is proportional."""
    hourly = make_offer(A100.name, price_usd_per_hour=3.0, billing_increment_s=60)
    exact = replace(speeds(**SPEEDS), spread=0.001)  # so that nothing ties
    found, _ = asked(L4_OFFER, hourly, estimator=exact, assumptions=make_assumptions(provisioning_s=300.0))
    assert found.price_usd_per_hour is not None
    at_break_even = replace(hourly, price_usd_per_hour=found.price_usd_per_hour * share)
    _, answer = asked(
        L4_OFFER, at_break_even, estimator=exact, assumptions=make_assumptions(provisioning_s=300.0)
    )
    assert answer.winner is not None
    assert (answer.winner.offer.gpu == A100.name) is (share < 1)


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_the_break_even_speed_is_where_the_ranking_turns(share: float) -> None:
    exact = replace(speeds(**SPEEDS), spread=0.001)
    found, _ = asked(
        L4_OFFER, A100_OFFER, estimator=exact, assumptions=make_assumptions(provisioning_s=300.0)
    )
    assert found.speedup is not None
    faster = replace(speeds(L4=2.0, A100=1.0 / (found.speedup * share)), spread=0.001)
    _, answer = asked(
        L4_OFFER, A100_OFFER, estimator=faster, assumptions=make_assumptions(provisioning_s=300.0)
    )
    assert answer.winner is not None
    assert (answer.winner.offer.gpu == A100.name) is (share > 1)


def test_a_speed_within_the_interval_may_be_settled_by_a_measurement() -> None:
    found, answer = asked(L4_OFFER, replace(A100_OFFER, price_usd_per_hour=2.3))
    assert found.is_speedup_within_interval
    assert "within its interval, which reaches 1.43 times: a measurement may settle it" in said(found, answer)


def test_what_is_paid_beside_the_steps_may_leave_no_speed_that_wins() -> None:
    found, answer = asked(
        L4_OFFER,
        replace(A100_OFFER, price_usd_per_hour=9.0),
        assumptions=make_assumptions(provisioning_s=3600.0),
    )
    assert found.speedup is None
    assert "Speed: no speed makes it win" in said(found, answer)


def test_a_deadline_that_no_price_helps_against() -> None:
    """The A100 takes up to 1,300 s and the L4 up to 2,600: only speed helps."""
    found, answer = asked(L4_OFFER, A100_OFFER, target=make_target(deadline_s=1000.0))
    assert answer.winner is None
    assert found.price_usd_per_hour is None
    assert found.speedup == pytest.approx(1.3, rel=1e-3)
    text = said(found, answer)
    assert "It is over deadline at the high end, as every plan is." in text
    assert "Price: at no price does it win" in text


def test_the_winner_is_said_to_win() -> None:
    found, answer = asked(L4_OFFER, A100_OFFER, gpu=L4.name)
    assert found.is_winner
    assert said(found, answer).startswith("L4-24GB does win: 1 x box-l4-24gb from gcp")


def test_the_value_of_waiting_counts() -> None:
    target = make_target(hour_value_usd=10.0)
    found, answer = asked(L4_OFFER, A100_OFFER, gpu=L4.name, target=target)
    assert answer.winner is not None
    assert answer.winner.offer.gpu == A100.name
    assert found.price_usd_per_hour is None  # $5.56 of waiting, however cheap
    assert "the waiting counted" in said(found, answer)


def test_scaling_is_held_against_that_of_the_fewest_devices() -> None:
    def seconds(config: TrialConfig) -> float:
        of_one = {L4.name: 2.0, A100.name: 1.0}[config.gpu]
        return of_one / config.gpu_count**0.9

    one, four = A100_OFFER, make_offer(A100.name, price_usd_per_hour=6.0, gpu_count=4)
    found, answer = asked(
        replace(L4_OFFER, price_usd_per_hour=0.7), one, four, estimator=FakeEstimator(step_s=seconds),
        configs_for=one_config,
    )  # fmt: skip
    assert found.plan is not None
    assert found.plan.device_count > 1
    assert found.scaling_fraction == pytest.approx(found.plan.device_count**-0.1)
    assert found.speedup is not None
    assert found.scaling_needed_fraction == pytest.approx(found.scaling_fraction * found.speedup)
    assert "of perfect scaling" in said(found, answer)


def test_a_gpu_that_nobody_offers_carries_no_plan() -> None:
    found, answer = asked(L4_OFFER)
    assert found.plan is None
    assert "A100-SXM4-80GB carries no plan.\nNobody in the catalog offers it: --price" in said(found, answer)


def test_a_gpu_that_is_too_small_says_what_it_lacks() -> None:
    estimator = FakeEstimator(peak_bytes=lambda config: 30.0 * GIB)
    found, answer = asked(L4_OFFER, A100_OFFER, estimator=estimator, gpu=L4.name)
    assert found.plan is None
    text = said(found, answer)
    assert "1 of its 1 offers: the model does not fit its memory at any micro batch size." in text
    assert "needs 33.0 GiB on each device at the high end, and 22.5 GiB are there" in text


def test_a_gpu_that_was_filtered_out_says_so() -> None:
    elsewhere = replace(A100_OFFER, provider="aws")
    found, answer = asked(L4_OFFER, elsewhere, filters=Filters(providers=frozenset({"gcp"})))
    assert "1 of its 1 offers: from a provider that was not asked for." in said(found, answer)


@pytest.fixture
def why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command on a study of one trial on an L4."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    url = f"sqlite:///{tmp_path / 'study.db'}"
    store_study(url, "linear", make_workload(), make_target(samples=320_000), make_measurement())
    return lambda *arguments: run(["why", "linear", *arguments, "--storage", url])


def test_the_command_says_why_with_an_exit_code(
    why: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert why("a100 sxm4 80gb") == Exit.PLAN
    assert "Price: it wins at" in capsys.readouterr().out
    assert why("a100 sxm4 80gb", "--json") == Exit.PLAN
    told = capsys.readouterr()
    document = validated(told.out, "why")
    assert (document["device"], document["is_winner"], document["schema_version"]) == (A100.name, False, 1)
    assert document["plan"]["offer"]["device"] == A100.name
    assert document["wins_at_price_usd_per_hour"] < document["plan"]["price_usd_per_hour"]
    assert document["explanation"] == told.err.splitlines()
    assert why("RTX-4080-16GB") == Exit.NOTHING_FITS
    assert "RTX-4080-16GB carries no plan." in capsys.readouterr().out
    assert why("H100") == Exit.BAD_INPUT
    assert "can mean H100-NVL-94GB" in capsys.readouterr().err
    assert why("H1000") == Exit.BAD_INPUT
    assert "did you mean" in capsys.readouterr().err
