"""The watch over a real run: quiet on sane runs, quick on slow ones, and exact about the bill."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from planner.codec import from_json
from planner.errors import PlannerError
from planner.estimate.values import Basis, Estimate
from planner.verify import Watch
from planner.verify.evidence import Evidence, Finding, Look
from planner.verify.run_plan import dump_run_plan, load_run_plan
from planner.verify.words import sentences
from tests.planner.run_plans import make_run_plan

STEPS_PER_LOOK = 10
MINUTE_LOOKS = 12  # of five seconds

Noise = Callable[[random.Random], Iterator[float]]


def gaussian(rng: random.Random) -> Iterator[float]:
    """Four per cent of independent noise."""
    while True:
        yield max(rng.gauss(1.0, 0.04), 0.5)


def recorded_like(rng: random.Random) -> Iterator[float]:
    """Slow first steps, a slow walk of the clocks, a heavy tail, and now and then a step that stalls."""
    drift = 0.0
    step = 0
    while True:
        step += 1
        drift = 0.999 * drift + rng.gauss(0.0, 0.0004)
        value = (1.0 + drift) * rng.lognormvariate(0.0, 0.03)
        if step <= 8:
            value *= 1 + 20 / step**2  # lazy initialisation, caches
        if rng.random() < 0.02:
            value *= 1 + rng.paretovariate(1.5) / 3  # page cache, other tenants
        if step % 600 == 0:
            value += 8.0  # the data set begins anew, or a checkpoint is saved
        yield value


def looks(step_s: Iterator[float], minutes: float, begun_at_s: float = 1e9) -> Iterator[Look]:
    at_s, step = begun_at_s + 30.0, 0
    for _ in range(round(minutes * MINUTE_LOOKS)):
        times = sorted(next(step_s) for _ in range(STEPS_PER_LOOK))
        at_s, step = at_s + sum(times), step + STEPS_PER_LOOK
        yield Look(
            begun_at_s=begun_at_s,
            at_s=at_s,
            step=step,
            step_count=STEPS_PER_LOOK,
            step_time_s=(times[4] + times[5]) / 2,
        )


def scaled(noise: Iterator[float], factor: Callable[[int], float]) -> Iterator[float]:
    """Seconds of steps that should take half a second."""
    return (0.5 * value * factor(step) for step, value in enumerate(noise))


def minutes_until(finding: Finding, evidence: Evidence, run: Iterator[Look]) -> float | None:
    for number, look in enumerate(run, start=1):
        evidence.add(look)
        if evidence.finding is finding:
            return number / MINUTE_LOOKS
    return None


@pytest.mark.parametrize("noise", [gaussian, recorded_like])
def test_twenty_sane_runs_of_two_hours_are_quiet(noise: Noise) -> None:
    for seed in range(20):
        evidence = Evidence(make_run_plan())
        rng = random.Random(seed)
        level = rng.uniform(0.96, 1.04)  # within the stated 0.95 to 1.05
        found = set()
        for look in looks(scaled(noise(rng), lambda _, level=level: level), minutes=120):
            evidence.add(look)
            found.add(evidence.finding)
        assert found == {Finding.TOO_EARLY, Finding.AS_STATED}, seed


@pytest.mark.parametrize("noise", [gaussian, recorded_like])
def test_a_slowdown_by_a_fifth_from_the_start_is_caught_in_two_minutes(noise: Noise) -> None:
    for seed in range(20):
        run = looks(scaled(noise(random.Random(seed)), lambda _: 1.2), minutes=10)
        minutes = minutes_until(Finding.SLOWER, Evidence(make_run_plan()), run)
        assert minutes is not None, seed
        assert minutes <= 2.0, seed


@pytest.mark.parametrize("noise", [gaussian, recorded_like])
def test_a_slowdown_by_a_fifth_after_an_hour_is_caught_in_three_minutes(noise: Noise) -> None:
    hour_steps = 60 * MINUTE_LOOKS * STEPS_PER_LOOK
    for seed in range(20):
        steps = scaled(noise(random.Random(seed)), lambda step: 1.2 if step >= hour_steps else 1.0)
        minutes = minutes_until(Finding.SLOWER, Evidence(make_run_plan()), looks(steps, minutes=70))
        assert minutes is not None, seed
        assert 60 < minutes <= 63, seed


def test_a_wide_interval_hides_a_slow_start_but_not_a_run_that_becomes_slower() -> None:
    wide = Estimate(low=0.35, expected=0.5, high=0.7, basis=Basis.PREDICTED)
    for seed in range(20):
        steps = scaled(recorded_like(random.Random(seed)), lambda step: 1.2 if step >= 3600 else 1.0)
        evidence = Evidence(make_run_plan(step_time_s=wide))
        minutes = minutes_until(Finding.SLOWED, evidence, looks(steps, minutes=40))
        assert minutes is not None, seed
        assert 30 < minutes <= 34, seed


def test_a_run_faster_than_stated_is_said_to_be() -> None:
    steps = scaled(recorded_like(random.Random(0)), lambda _: 0.8)
    minutes = minutes_until(Finding.FASTER, Evidence(make_run_plan()), looks(steps, minutes=10))
    assert minutes is not None
    assert minutes <= 2.0


def steady(evidence: Evidence, step_s: float, look_count: int, *, pause_s: float = 0.0) -> None:
    for number in range(1, look_count + 1):
        evidence.add(
            Look(
                begun_at_s=1000.0,
                at_s=1060.0 + number * (10 * step_s + pause_s),
                step=10 * number,
                step_count=10,
                step_time_s=step_s,
            )
        )


def test_the_bill_is_what_is_held_so_far_and_the_rest_at_the_pace_so_far() -> None:
    evidence = Evidence(make_run_plan())
    steady(evidence, 0.5, 20)
    verdict = evidence.verdict()
    # 300 s provisioning, 60 s start-up, 36,000 steps of 0.5 s; $0.72 an hour is $0.0002 a second
    assert verdict.duration_s is not None
    assert verdict.duration_s.expected == pytest.approx(18_360.0)
    assert verdict.bill_usd is not None
    assert verdict.bill_usd.expected == pytest.approx(3.672)
    assert (verdict.finding, verdict.is_dearer, verdict.is_late) == (Finding.AS_STATED, False, False)


def test_pauses_between_steps_are_billed_but_not_held_against_the_speed() -> None:
    evidence = Evidence(make_run_plan(target=replace(make_run_plan().target, budget_usd=4.0)))
    steady(evidence, 0.5, 60, pause_s=1.0)
    verdict = evidence.verdict()
    assert verdict.finding is Finding.AS_STATED
    assert verdict.bill_usd is not None
    assert verdict.bill_usd.expected == pytest.approx((360 + 36_000 * 0.6) * 0.0002)
    assert verdict.is_dearer
    assert verdict.is_over_budget
    assert verdict.is_off_plan


def test_a_deadline_that_the_pace_will_miss_is_named() -> None:
    run = make_run_plan(target=replace(make_run_plan().target, deadline_s=18_000.0))
    evidence = Evidence(run)
    steady(evidence, 0.5, 20)
    assert evidence.verdict().is_late
    assert "The deadline of 5 h will be missed." in sentences(evidence.verdict(), run)


def test_another_price_changes_the_bill_and_is_said() -> None:
    run = make_run_plan()
    evidence = Evidence(run)
    steady(evidence, 0.5, 20)
    verdict = evidence.verdict(price_usd_per_hour=0.90)
    assert verdict.bill_usd is not None
    assert verdict.bill_usd.expected == pytest.approx(3.672 / 0.72 * 0.90)
    assert verdict.is_dearer
    assert sentences(verdict, run)[1] == "The price has changed: $0.900/h, planned with $0.720/h."


def test_an_interruption_is_provisioned_again_and_its_gap_not_billed() -> None:
    evidence = Evidence(make_run_plan())
    steady(evidence, 0.5, 20)
    for number in range(1, 13):
        step = 200 + 10 * number
        evidence.add(
            Look(
                begun_at_s=90_000.0,
                at_s=90_060.0 + number * 5,
                step=step,
                step_count=10,
                step_time_s=0.5,
            )
        )
    duration_s = evidence.verdict().duration_s
    assert duration_s is not None
    assert duration_s.expected == pytest.approx(18_360.0 + 300 + 60)


class Clock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.now_s = 5000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_watch_in_a_loop_needs_one_line_and_says_a_thing_once(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(dump_run_plan(make_run_plan()))
    said: list[str] = []
    clock = Clock()
    watch = Watch(tmp_path / "plan.json", log=tmp_path / "log.jsonl", say=said.append, clock=clock)
    for _ in range(400):
        clock.now_s += 0.6
        watch.tick()
    assert watch.verdict.finding is Finding.SLOWER
    assert watch.verdict.step == 397  # the last three are of a look that has not ended
    (text,) = said
    assert text.splitlines()[0] == (
        "The run is slower than stated: 600 ms a step after 1 min 10 s, stated 475 to 525 ms. "
        "A false alarm has a probability of at most 1%."
    )
    logged = [
        from_json(line, Look, where="log") for line in (tmp_path / "log.jsonl").read_text().splitlines()
    ]
    assert [one.step_count for one in logged[:2]] == [9, 9]
    assert logged[-1].step == 397
    again = Evidence(make_run_plan())
    for one in logged:
        again.add(one)
    assert again.verdict() == watch.verdict


def test_a_bill_that_pauses_drive_up_is_said_once_though_the_steps_are_as_stated() -> None:
    said: list[str] = []
    clock = Clock()
    watch = Watch(make_run_plan(), say=said.append, clock=clock)
    for look in range(100):
        clock.now_s += 5.0 if look < 20 else 7.0
        watch.add([0.5] * 10)
    assert [text.splitlines()[0].split(":")[0] for text in said] == ["The speed is as stated"] * 2
    assert "above the stated $3.48 to $3.84" in said[1]


def test_measured_step_times_are_taken_by_their_median_and_with_their_loss(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch(make_run_plan(), log=tmp_path / "log.jsonl", step=1000, say=lambda _: None, clock=clock)
    clock.now_s += 7.0
    watch.add([0.5, 0.5, 3.0], loss=2.25)
    watch.add([])
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "begun_at_s": 5000.0,
        "at_s": 5007.0,
        "step": 1003,
        "step_count": 3,
        "step_time_s": 0.5,
        "loss": 2.25,
    }


def test_before_enough_is_known_nothing_is_claimed() -> None:
    evidence = Evidence(make_run_plan())
    steady(evidence, 0.5, 3)
    verdict = evidence.verdict()
    assert (verdict.finding, verdict.bill_usd, verdict.is_off_plan) == (Finding.TOO_EARLY, None, False)
    assert sentences(verdict, make_run_plan()) == (
        "Too early to tell: 2 looks so far, after step 30 of 36,000; stated is 475 to 525 ms a step.",
    )


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(dump_run_plan(make_run_plan()))
    assert load_run_plan(path) == make_run_plan()


def test_a_plan_that_cannot_be_read_says_where_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PlannerError, match="`planner launch-files STUDY` writes it"):
        load_run_plan(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text(dump_run_plan(replace(make_run_plan(), schema_version=99)))
    with pytest.raises(PlannerError, match=r"plan\.json has schema version 99, this planner reads 1"):
        load_run_plan(tmp_path / "plan.json")
