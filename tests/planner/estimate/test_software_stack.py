from __future__ import annotations

from dataclasses import replace

import pytest

from catalogs.gpus import load_gpus
from planner.estimate import Basis, Hardware, fit
from planner.estimate.software_stack import stack_changes, stack_of
from tests.builders import GIB, make_config, make_environment, make_measurement
from trials.measurement import Measurement

GPUS = load_gpus()
L4 = make_config("L4-24GB")
HARDWARE = Hardware(gpu=GPUS[L4.gpu], link=GPUS[L4.gpu].link)
OLD, NEW = make_environment(torch="2.7.1+cu126"), make_environment(torch="2.8.0+cu126")


def step(size: int, seconds: float, environment: object = NEW) -> Measurement:
    return make_measurement(
        replace(L4, micro_batch_size=size),
        step_time_s=seconds,
        peak_memory_bytes=(2 + size) * GIB // 2,
        environment=environment,
    )


def seconds(size: int) -> float:
    return L4.accumulation * (0.02 + 0.01 * size)


BEFORE = [step(size, seconds(size), OLD) for size in (2, 4, 8, 16)]


def test_stacks_differ_by_release_and_driver_branch_only() -> None:
    assert stack_of(OLD) != stack_of(NEW)
    assert stack_of(NEW) == stack_of(replace(NEW, torch="2.8.0", driver="550.90.07"))


def test_the_newest_stack_is_not_mixed_with_an_older_one() -> None:
    found = fit([*BEFORE, step(4, 1.2 * seconds(4))], gpus=GPUS)

    again = found.step_time_s(replace(L4, micro_batch_size=4), HARDWARE)

    assert again is not None
    assert again.basis is Basis.MEASURED
    assert again.expected == pytest.approx(1.2 * seconds(4))


def test_an_older_stack_lends_its_line_with_its_offset() -> None:
    found = fit([*BEFORE, step(2, 1.1 * seconds(2)), step(4, 1.1 * seconds(4))], gpus=GPUS)

    far = found.step_time_s(replace(L4, micro_batch_size=16), HARDWARE)

    assert far is not None
    assert far.basis is Basis.PREDICTED
    assert far.expected == pytest.approx(1.1 * seconds(16), rel=0.03)
    assert far.low < 1.1 * seconds(16) < far.high < 1.3 * far.low


def test_what_an_upgrade_changed_is_told_with_its_interval() -> None:
    changes = stack_changes([*BEFORE, *(step(size, 1.06 * seconds(size)) for size in (2, 4, 8))])
    (change,) = changes.values()

    assert change.pair_count == 3
    assert change.newest.since(change.older) == "torch 2.8.0 (before: 2.7.1)"
    ratio = change.ratio(0.9)
    assert ratio.low < ratio.expected < ratio.high
    assert ratio.expected == pytest.approx(1.06, abs=0.005)


def test_one_stack_has_no_change() -> None:
    assert stack_changes(BEFORE) == {}


def test_memory_of_an_older_stack_is_a_prediction_with_a_margin() -> None:
    found = fit([*BEFORE, step(4, seconds(4))], gpus=GPUS)

    now = found.peak_memory_bytes(replace(L4, micro_batch_size=4), HARDWARE)
    before = found.peak_memory_bytes(replace(L4, micro_batch_size=16), HARDWARE)

    assert now is not None
    assert before is not None
    assert now.basis is Basis.MEASURED
    assert before.basis is Basis.PREDICTED
    assert before.expected == pytest.approx(9 * GIB, rel=0.01)
