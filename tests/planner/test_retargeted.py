"""Asking a study for another target than that of its sweep."""

from __future__ import annotations

from planner.commands.answer import retargeted
from planner.target import BatchRange, Target, TargetFlags
from tests.builders import make_profile, make_target
from trials.profile import TargetHint

SIZES = BatchRange(low=64, high=1024)
PROFILE = make_profile(hint=TargetHint(samples=10, global_batch_size=4))
SWEPT = make_target(global_batch_size=128, samples=7000)


def asked(flags: TargetFlags, swept: Target = SWEPT) -> Target:
    return retargeted(swept, flags, PROFILE, "model.py")


def test_of_a_range_the_size_that_was_swept_is_the_reference() -> None:
    found = asked(TargetFlags(global_batch_size=SIZES))
    assert (found.global_batch_size, found.samples, found.batch_range) == (128, 7000, SIZES)
    outside = asked(TargetFlags(global_batch_size=BatchRange(low=256, high=1024)))
    assert outside.global_batch_size == 256


def test_one_size_ends_the_choice() -> None:
    swept = make_target(global_batch_size=128, samples=7000, batch_range=SIZES)
    found = asked(TargetFlags(global_batch_size=512), swept)
    assert (found.global_batch_size, found.samples, found.batch_range) == (512, 7000, None)


def test_another_length_or_budget_leaves_the_range() -> None:
    swept = make_target(global_batch_size=128, samples=7000, batch_range=SIZES)
    found = asked(TargetFlags(samples=99, budget_usd=7.0), swept)
    assert (found.samples, found.global_batch_size, found.batch_range) == (99, 128, SIZES)
    assert found.budget_usd == 7.0
