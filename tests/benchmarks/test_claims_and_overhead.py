"""The arithmetic of the benchmarks that print claims and overhead, against numbers worked out by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from benchmarks.claims import claims_for, interval, peak_bytes
from benchmarks.overhead import TimedTrial, report
from tests.builders import make_config, make_failure, make_measurement
from trials.measurement import Outcome, Series

NOON = datetime(2026, 11, 21, 12)


def test_the_interval_is_students_of_the_logs() -> None:
    # logs 0 and ln 4: mean ln 2, standard deviation ln 4 / sqrt 2, over sqrt 2: half = 12.71 x ln 2
    middle, low, high = interval([1.0, 4.0])
    assert middle == pytest.approx(2.0)
    assert (low, high) == pytest.approx((2.0 ** (1 - 12.71), 2.0 ** (1 + 12.71)))
    assert interval([3.0, 3.0, 3.0]) == pytest.approx((3.0, 3.0, 3.0))


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_both_sides_of_a_claim_do_the_same_work_but_for_what_is_claimed(device: str) -> None:
    claims = claims_for(device)
    assert len({(one.said, one.what) for one in claims}) == len(claims)
    for one in claims:
        assert one.of.workload == one.to.workload
        assert one.of != one.to
    free = [one for one in claims if one.said.startswith("accumulation") and one.value is peak_bytes]
    sizes = [(one.of.knobs["micro_batch_size"], one.to.knobs["micro_batch_size"]) for one in free]
    assert [of == to for of, to in sizes] == [True, False]


def timed(outcome: Outcome, begun_s: float, ended_s: float) -> TimedTrial:
    return TimedTrial(
        outcome=outcome, begun=NOON + timedelta(seconds=begun_s), ended=NOON + timedelta(seconds=ended_s)
    )


def test_the_wall_time_of_a_sweep_is_accounted_for(capsys: pytest.CaptureFixture[str]) -> None:
    measurement = make_measurement(
        make_config(),
        series=(Series(accumulation=4, step_times_s=(0.5,) * 10),),
        warmup_step_count=5,
        startup_s=1.0,
        first_step_s=2.0,
        trial_s=11.0,
    )
    first, second = timed(measurement, 10, 30), timed(make_failure(make_config(), trial_s=4.0), 31, 36)
    assert (first.timed_s, first.warmup_s, first.rest_s) == (5.0, 2.0, 1.0)
    assert (second.timed_s, second.rest_s) == (0.0, 4.0)
    report([first, second], NOON, NOON + timedelta(seconds=40))
    said = capsys.readouterr().out
    assert "2 trials (1 failed) in 40.0 s" in said
    assert "first timed step: 24.0 s" in said  # 30 less the 6 s of timed steps and what follows them
    assert "not timed steps (median): 5.00 s" in said
    assert "in timed steps: 12.5%" in said
    assert said.splitlines()[-1].split()[-2] == "0.0"  # nothing is left over
