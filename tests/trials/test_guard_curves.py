"""The guard on real models: five sane ones pass in bf16 and fp16, arithmetic not up to a model does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.guard import BAD, SANE, STEP_COUNT, Case, curve, unscaled
from planner.plans.numerics_check import judge
from trials.measurement import Measurement, Outcome
from trials.trial import Failure, FailureKind, Precision

OVERFLOWING, UNDERFLOWING = BAD


def losses(outcome: Outcome) -> tuple[float, ...]:
    assert isinstance(outcome, Measurement), outcome
    return outcome.losses


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP16])
@pytest.mark.parametrize("case", SANE, ids=lambda case: case.name)
def test_sane_models_are_not_rejected(tmp_path: Path, case: Case, precision: Precision) -> None:
    reference = losses(curve(tmp_path, case, Precision.FP32))
    assert len(reference) == STEP_COUNT  # whatever the steps took
    assert judge(losses(curve(tmp_path, case, precision)), reference) == ""


def test_a_loss_that_overflows_is_a_divergence(tmp_path: Path) -> None:
    outcome = curve(tmp_path, OVERFLOWING, Precision.FP16)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.DIVERGED


def test_gradients_that_scaling_does_not_lift_are_rejected_in_fp16_alone(tmp_path: Path) -> None:
    reference, half, brain = (
        losses(curve(tmp_path, UNDERFLOWING, one)) for one in (Precision.FP32, Precision.FP16, Precision.BF16)
    )
    assert judge(half, reference) != ""
    assert judge(brain, reference) == ""


def test_fp16_without_scaling_is_rejected_where_gradients_are_tiny() -> None:
    reference = unscaled(None, 1e-7)
    assert judge(unscaled(torch.float16, 1e-7), reference) != ""
    assert judge(unscaled(torch.bfloat16, 1e-7), reference) == ""  # bf16 has fp32's exponents
    assert judge(unscaled(torch.float16, 1.0), unscaled(None, 1.0)) == ""
