import pytest

from planner.errors import PlannerError
from planner.flags import flags_of
from planner.target import (
    BatchRange,
    TargetFlags,
    parse_batch_size,
    resolve_target,
)
from tests.builders import make_profile
from trials.profile import TargetHint

FILE = "model.py"


def test_flags_win_over_the_model_file() -> None:
    profile = make_profile(hint=TargetHint(samples=10, global_batch_size=4))
    target = resolve_target(TargetFlags(samples=99, global_batch_size=8), profile, FILE)
    assert (target.samples, target.global_batch_size, target.step_count) == (99, 8, 13)


def test_a_length_flag_replaces_another_kind_of_length_in_the_file() -> None:
    profile = make_profile(hint=TargetHint(samples=10, global_batch_size=4), dataset_size=100)
    assert resolve_target(TargetFlags(epochs=2.5), profile, FILE).samples == 250


def test_tokens_become_samples_by_tokens_per_sample() -> None:
    profile = make_profile(tokens_per_sample=128)
    assert resolve_target(TargetFlags(tokens=1e6, global_batch_size=8), profile, FILE).samples == 7813


@pytest.mark.parametrize(
    ("flags", "changes", "message"),
    [
        (TargetFlags(samples=5), {}, "--global-batch-size"),
        (TargetFlags(global_batch_size=8), {}, "--samples, --epochs or --tokens"),
        (TargetFlags(epochs=1, global_batch_size=8), {"dataset_size": None}, "give --samples"),
        (TargetFlags(tokens=1e6, global_batch_size=8), {}, "tokens_per_sample"),
        (TargetFlags(samples=1, epochs=1, global_batch_size=8), {}, "give one of them"),
        (TargetFlags(samples=0, global_batch_size=8), {}, "at least 1"),
        (TargetFlags(samples=5, global_batch_size=-8), {}, "at least 1"),
    ],
)
def test_what_is_missing_is_asked_for_and_never_guessed(
    flags: TargetFlags, changes: dict, message: str
) -> None:
    with pytest.raises(PlannerError, match=message):
        resolve_target(flags, make_profile(**changes), FILE)


def test_a_batch_size_is_one_number_or_a_range() -> None:
    assert parse_batch_size("512") == 512
    assert parse_batch_size("64:64") == 64
    assert parse_batch_size("256:4096") == BatchRange(low=256, high=4096)


@pytest.mark.parametrize("text", ["", "a", "8.5", "1:2:3", "256:", "4096:256", "0:8", "8:2000000"])
def test_what_is_no_batch_size_is_refused_with_the_flag(text: str) -> None:
    flag = next(flag for flag in flags_of(TargetFlags) if flag.field == "global_batch_size")
    with pytest.raises(PlannerError, match=f"--global-batch-size {text}: "):
        flag.value(text)


@pytest.mark.parametrize(("own", "reference"), [(480, 480), (64, 256), (None, 256), (8192, 256)])
def test_the_reference_is_the_files_own_size_where_it_may_be_chosen(own: int | None, reference: int) -> None:
    profile = make_profile(hint=TargetHint(samples=10, global_batch_size=own))
    sizes = BatchRange(low=256, high=4096)
    target = resolve_target(TargetFlags(global_batch_size=sizes), profile, FILE)
    assert (target.global_batch_size, target.batch_range) == (reference, sizes)


def test_sizes_of_a_range_double_and_halve_the_reference() -> None:
    assert BatchRange(low=100, high=1000).sizes(480) == (100, 120, 240, 480, 960, 1000)
    assert BatchRange(low=5, high=20).sizes(15) == (5, 15, 20)  # 7.5 is no batch
    assert BatchRange(low=32, high=256).sizes(32) == (32, 64, 128, 256)
