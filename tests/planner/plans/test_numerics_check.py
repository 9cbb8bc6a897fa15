"""Loss curves held side by side: five sane models in bf16 pass, what is known to be bad does not."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from planner.modes.chosen import Arithmetic
from planner.plans.numerics_check import guards, judge, next_guard, reference_of, rejected_arithmetic
from planner.plans.rule_out import rule_out
from tests.builders import make_config, make_failure, make_measurement
from trials.measurement import Measurement
from trials.trial import FailureKind, Precision, Purpose, TrialConfig

STEPS = 42
BF16 = make_config(precision=Precision.BF16)
FP32 = make_config()


def descent(start: float = 4.0, end: float = 2.0, noise: float = 0.05, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [end + (start - end) * math.exp(-step / 12) + draw.gauss(0.0, noise) for step in range(STEPS)]


REFERENCE = descent()


def always(config: TrialConfig) -> bool:
    return True


@pytest.mark.parametrize(
    "losses",
    [
        REFERENCE,
        [one * (1 + 0.004 * (-1) ** step) for step, one in enumerate(REFERENCE)],  # rounding, to either side
        [one * 1.01 for one in REFERENCE],
        [REFERENCE[0]] * 4 + REFERENCE[:-4],  # fp16 skips steps until its scale fits
        descent(seed=1),  # other samples
        descent(end=1.5),  # learns faster
        REFERENCE[:10],  # too short to tell
    ],
)
def test_sane_curves_pass(losses: list[float]) -> None:
    assert judge(losses, REFERENCE) == ""


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ([REFERENCE[0]] * STEPS, "after 42 steps the loss is 4."),  # no gradient gets through
        ([4.0 + 0.1 * step for step in range(STEPS)], "after 42 steps the loss is 7."),
        (descent(end=3.2), "with fp32 it is 2."),
        ([*REFERENCE[:20], math.inf, *REFERENCE[21:]], "the loss became inf at step 21"),
        ([*REFERENCE[:30], math.nan, *REFERENCE[31:]], "the loss became nan at step 31"),
    ],
)
def test_what_does_not_descend_is_rejected(losses: list[float], reason: str) -> None:
    assert reason in judge(losses, REFERENCE)


def test_where_the_reference_learns_nothing_only_a_clear_rise_is_rejected() -> None:
    flat, other = descent(4.0, 4.0, seed=2), descent(4.0, 4.0, seed=3)
    assert judge(other, flat) == ""
    assert judge([one + 0.5 for one in flat], flat) != ""


def test_where_losses_scatter_four_standard_errors_of_their_differences_are_allowed() -> None:
    error = 0.5 * math.sqrt(14 / 13) / math.sqrt(14)  # the last 14 differences lie 0.5 to either side

    def verdict(standard_errors: float) -> str:  # neither progress nor 2% of the loss comes near
        return judge(
            [1.0 + standard_errors * error + 0.5 * (-1) ** one for one in range(STEPS)], [1.0] * STEPS
        )

    assert verdict(3.0) == ""
    assert "with fp32 it is 1" in verdict(5.0)


def test_a_lag_of_less_than_a_third_of_the_progress_is_allowed() -> None:
    reference = [4.0, 4.0, 4.0] + [1.0] * (STEPS - 3)  # 3 of progress: 1 may be missing

    def verdict(lag: float) -> str:
        return judge([4.0, 4.0, 4.0] + [1.0 + lag] * (STEPS - 3), reference)

    assert verdict(0.9) == ""
    assert verdict(1.0) == ""
    assert verdict(1.1) != ""


def test_the_reference_has_no_technique_that_changes_the_numbers() -> None:
    config = make_config(precision=Precision.BF16, techniques=("activation_checkpointing", "compile"))
    assert reference_of(config).techniques == ("activation_checkpointing",)


def curve(config, losses, purpose=Purpose.GUARD) -> Measurement:
    return make_measurement(config, losses=tuple(losses), purpose=purpose)


def test_the_reference_runs_first_and_each_arithmetic_once() -> None:
    searched = make_measurement(BF16)
    assert next_guard(FP32, [searched], always) is None
    assert next_guard(BF16, [searched], always) == FP32
    reference = curve(FP32, REFERENCE)
    assert next_guard(BF16, [searched, reference], always) == BF16
    judged = [searched, reference, curve(BF16, REFERENCE)]
    assert next_guard(BF16, judged, always) is None
    assert (
        next_guard(make_config(precision=Precision.BF16, micro_batch_size=16, accumulation=2), judged, always)
        is None
    )
    unfit = make_failure(FP32, purpose=Purpose.GUARD)
    assert next_guard(BF16, [searched, unfit], always) is None  # fp32 does not fit: nothing to compare with


def test_only_trials_of_the_guard_are_compared() -> None:
    assert guards([curve(FP32, REFERENCE), curve(BF16, [9.0] * STEPS, Purpose.SEARCH)]) == ()
    (found,) = guards([curve(FP32, REFERENCE), curve(BF16, REFERENCE)])
    assert (found.config, found.reference, found.rejection) == (BF16, FP32, "")
    assert reference_of(BF16) == FP32


def test_a_rejected_arithmetic_is_planned_nowhere_though_it_was_fast() -> None:
    outcomes = [
        make_measurement(BF16),
        make_measurement(FP32),
        curve(FP32, REFERENCE),
        curve(BF16, [4.0] * STEPS),
    ]
    assert rejected_arithmetic(outcomes) == {Arithmetic(precision="bf16", techniques=())}
    ruled_out = rule_out(outcomes)
    assert ruled_out.has(BF16)
    assert ruled_out.has(make_config("A100-SXM4-80GB", precision=Precision.BF16))
    assert not ruled_out.has(FP32)
    assert not rule_out(outcomes[:3]).has(BF16)


def test_a_loss_that_overflows_at_length_is_rejected() -> None:
    reason = "the loss became nan at step 30"
    diverged = make_failure(BF16, kind=FailureKind.DIVERGED, reason=reason, purpose=Purpose.GUARD)
    (found,) = guards([make_measurement(BF16), curve(FP32, REFERENCE), diverged])
    assert found.rejection == reason
    assert found.losses == ()


def test_what_failed_for_another_reason_is_not_rejected() -> None:
    lost = make_failure(BF16, kind=FailureKind.WORKER_LOST, purpose=Purpose.GUARD)
    assert guards([curve(FP32, REFERENCE), lost]) == ()


def test_where_fp32_does_not_fit_both_run_with_smaller_micro_batches() -> None:
    half = replace(BF16, micro_batch_size=BF16.micro_batch_size // 2, accumulation=2 * BF16.accumulation)

    def fits(config: TrialConfig) -> bool:
        return config.micro_batch_size < BF16.micro_batch_size

    assert next_guard(BF16, [], fits) == reference_of(half)
    reference = make_measurement(reference_of(half), purpose=Purpose.GUARD)
    assert next_guard(BF16, [reference], fits) == half
    assert next_guard(BF16, [], lambda config: False) is None
