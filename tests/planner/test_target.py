import pytest

from planner.errors import PlannerError
from planner.target import (
    BatchRange,
    TargetFlags,
    check_money,
    parse_batch_size,
    parse_duration_s,
    resolve_target,
)
from tests.builders import make_profile
from trials.profile import TargetHint

FILE = "model.py"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("36h", 129_600),
        ("90m", 5400),
        ("90min", 5400),
        ("2d", 172_800),
        ("1d12h", 129_600),
        ("1.5h", 5400),
        ("45s", 45),
    ],
)
def test_durations_are_read_in_the_units_people_write(text: str, seconds: float) -> None:
    assert parse_duration_s(text, "--deadline") == seconds


@pytest.mark.parametrize("text", ["", "36", "-3h", "3 weeks", "h", "0h"])
def test_what_is_no_duration_is_refused_with_the_flag_and_an_example(text: str) -> None:
    with pytest.raises(PlannerError, match="--deadline"):
        parse_duration_s(text, "--deadline")


@pytest.mark.parametrize("usd", [0.0, -5.0, float("nan"), float("inf"), 2e9])
def test_absurd_money_is_refused(usd: float) -> None:
    with pytest.raises(PlannerError, match="--budget"):
        check_money("--budget", usd)


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
    with pytest.raises(PlannerError, match=f"--global-batch-size {text}: "):
        parse_batch_size(text)


@pytest.mark.parametrize(("own", "reference"), [(480, 480), (64, 256), (None, 256), (8192, 256)])
def test_the_reference_is_the_files_own_size_where_it_may_be_chosen(own: int | None, reference: int) -> None:
    profile = make_profile(hint=TargetHint(samples=10, global_batch_size=own))
    sizes = BatchRange(low=256, high=4096)
    target = resolve_target(TargetFlags(batch_range=sizes), profile, FILE)
    assert (target.global_batch_size, target.batch_range) == (reference, sizes)


def test_sizes_of_a_range_double_and_halve_the_reference() -> None:
    assert BatchRange(low=100, high=1000).sizes(480) == (100, 120, 240, 480, 960, 1000)
    assert BatchRange(low=5, high=20).sizes(15) == (5, 15, 20)  # 7.5 is no batch
    assert BatchRange(low=32, high=256).sizes(32) == (32, 64, 128, 256)
