"""What the moments of a step cannot tell apart."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.trials.files import PLAIN, on_cpu, write
from trials.measurement import Measurement, Phases
from trials.measuring.exposed_communication import intercept_s
from trials.measuring.measure import MeasureSettings, measure
from trials.measuring.phases import disagreement_fraction
from trials.rank_context import RankContext

QUICK = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf)
PHASES = Phases(
    data_wait_s=0.1, host_to_device_s=0.1, forward_backward_s=0.5, gradient_sync_s=0.2, optimizer_s=0.1,
    other_s=0.0, launch_s=0.4,
)  # fmt: skip


def phases_of(text: str, folder: Path, settings: MeasureSettings = QUICK, **changes: object) -> Phases:
    found = measure(write(folder, text), on_cpu(**changes), RankContext(threads=1), settings)
    assert isinstance(found, Measurement), found
    assert found.phases is not None
    return found.phases


def test_the_intercept_is_that_of_the_line_and_no_nonsense() -> None:
    assert intercept_s(2, 3.0, 8, 6.0) == pytest.approx(2.0)
    assert intercept_s(2, 3.0, 8, 3.0) == pytest.approx(3.0)
    assert intercept_s(2, 3.0, 8, 2.0) == 2.0  # noise: the larger batch took less
    assert intercept_s(2, 1.0, 8, 8.0) == 0.0  # noise: more than in proportion


def test_phases_that_add_up_agree_with_the_whole() -> None:
    assert disagreement_fraction(PHASES, 1.0, 10.0, 10.0) == pytest.approx(0.0)
    assert disagreement_fraction(PHASES, 1.25, 10.0, 10.0) == pytest.approx(0.2)
    assert disagreement_fraction(PHASES, 1.0, 9.0, 10.0) == pytest.approx(0.1)


def test_one_worker_synchronises_nothing_and_launches_something(tmp_path: Path) -> None:
    many_small = PLAIN.replace("range(3)", "range(30)")  # so that no passing load hides the launches
    phases = phases_of(many_small, tmp_path)
    assert phases.gradient_sync_s == 0.0
    assert phases.launch_s is not None
    assert 0 < phases.launch_s <= phases.forward_backward_s
    assert phases_of(PLAIN, tmp_path, micro_batch_size=2).launch_s is None  # no smaller batch to compare


def test_a_model_that_refuses_the_small_batch_is_measured_all_the_same(tmp_path: Path) -> None:
    text = PLAIN.replace("    x, y = batch\n", "    x, y = batch\n    assert len(x) == 8\n")
    assert phases_of(text, tmp_path).launch_s is None


def test_the_extra_passes_can_be_left_out(tmp_path: Path) -> None:
    short = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf, is_split=False)
    assert phases_of(PLAIN, tmp_path, short).launch_s is None
