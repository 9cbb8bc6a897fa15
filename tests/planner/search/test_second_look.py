"""Memory that is approached from below, disturbed trials that are repeated, winners that are confirmed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from planner.plans.rule_out import rule_out
from tests.builders import GIB, make_profile
from tests.planner.test_sweep import UNLIMITED, Bench, group
from trials.measurement import Measurement, Outcome
from trials.trial import Failure, FailureKind, Purpose

MIB = GIB // 1024


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """One GPU and a model without blocks: a small space, so that a sweep is quick."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    return Bench(url=url, groups=(group(gpu_count=1),), profile=make_profile(block_count=0))


def outcomes(bench: Bench) -> list[Outcome]:
    return [one.outcome for one in bench.study().trials()]


@pytest.mark.parametrize(
    ("fixed_bytes", "per_sample_bytes"),
    [(9 * GIB, 560 * MIB), (15 * GIB, 130 * MIB)],
)
def test_no_trial_runs_out_of_memory_that_could_be_foreseen(
    bench: Bench, fixed_bytes: int, per_sample_bytes: int
) -> None:
    bench.gpu.fixed_bytes, bench.gpu.per_sample_bytes = fixed_bytes, per_sample_bytes
    bench.target = replace(bench.target, global_batch_size=240)  # many divisors
    bench.sweep().run(bench.gpu.run_trial)
    assert not any(isinstance(one, Failure) for one in outcomes(bench))
    best = bench.ended[-1].best_cost
    assert best is not None
    assert best.expected == pytest.approx(bench.best_possible_usd(), rel=0.03)


def test_a_peak_of_the_update_hides_no_growth_of_the_passes(bench: Bench) -> None:
    """The whole peak is flat until the passes overtake the update: its line would foresee nothing."""
    bench.gpu.fixed_bytes, bench.gpu.per_sample_bytes = 8 * GIB, 500 * MIB
    bench.gpu.update_bytes = 6 * GIB
    bench.target = replace(bench.target, global_batch_size=240)
    bench.sweep().run(bench.gpu.run_trial)
    assert not any(isinstance(one, Failure) for one in outcomes(bench))
    best = bench.ended[-1].best_cost
    assert best is not None
    assert best.expected == pytest.approx(bench.best_possible_usd(), rel=0.03)


def test_a_probe_is_no_configuration_of_the_run_and_never_its_best(bench: Bench) -> None:
    bench.gpu.fixed_bytes, bench.gpu.per_sample_bytes = 9 * GIB, 560 * MIB
    bench.sweep().run(bench.gpu.run_trial)
    found = outcomes(bench)
    probes = [one for one in found if one.purpose is Purpose.PROBE]
    assert probes
    assert all(one.config.global_batch_size != 64 for one in probes)
    assert all(one.best is None or one.best.global_batch_size == 64 for one in bench.ended)


def test_a_disturbed_trial_that_may_be_the_best_is_repeated_once(bench: Bench) -> None:
    bench.gpu.disturbed = frozenset({0, 1, 2})
    bench.sweep(replace(UNLIMITED, max_trials=6)).run(bench.gpu.run_trial)
    seen = bench.gpu.seen
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[2].micro_batch_size == 4 * seen[0].micro_batch_size  # the second point of the line, as ever
    assert max(Counter(seen).values()) == 2
    assert outcomes(bench)[1].disturbance == "unsteady"  # marked, and not tried a third time


def test_an_interpolated_winner_is_run_in_full_before_it_is_recommended(bench: Bench) -> None:
    bench.gpu.is_interpolating = True
    bench.gpu.launch_s = 0.0  # a large micro batch gains nothing
    bench.gpu.per_sample_bytes = 4 * GIB  # and does not fit
    bench.sweep().run(bench.gpu.run_trial)
    *_, last = outcomes(bench)
    assert isinstance(last, Measurement)
    assert last.purpose is Purpose.CONFIRM
    assert last.config.accumulation >= 5
    assert not last.is_interpolated
    count = len(bench.gpu.seen)
    bench.sweep().run(bench.gpu.run_trial)
    assert len(bench.gpu.seen) == count  # once


def test_a_winner_whose_longest_batch_does_not_fit_is_no_winner(bench: Bench) -> None:
    bench.gpu.longest_factor = 1.5
    bench.gpu.per_sample_bytes = 560 * MIB
    bench.sweep().run(bench.gpu.run_trial)
    found = outcomes(bench)
    overflowing = [one for one in found if isinstance(one, Failure)]
    assert overflowing
    assert all(
        one.purpose is Purpose.CONFIRM and one.kind is FailureKind.OUT_OF_MEMORY for one in overflowing
    )
    best = bench.ended[-1].best
    assert best is not None
    assert best not in [one.config for one in overflowing]
    assert all(rule_out(found).has(one.config) for one in overflowing)
