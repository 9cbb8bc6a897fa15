from planner.search.acquisition import Candidate
from planner.search.stopping import why_none
from tests.builders import GIB, make_config, make_estimate

CONFIDENCE = 0.9
BEST = 0.40


def left(expected: float, trial_cost_usd: float | None = 0.05, count: int = 2) -> list[Candidate]:
    return [
        Candidate(
            config=make_config(micro_batch_size=2**index, accumulation=32 // 2**index),
            run_cost=make_estimate(expected, 0.3),
            trial_cost_usd=trial_cost_usd,
            memory=None,
            memory_bytes=24 * GIB,
        )
        for index in range(count)
    ]


def why(candidates: list[Candidate], best: float | None = BEST, *, is_opening: bool = False) -> str:
    return why_none(candidates, best, CONFIDENCE, is_opening=is_opening)


def test_it_says_in_dollars_why_no_further_trial_pays() -> None:
    assert why(left(0.42)) == "the best of 2 further trials would save $0.02 in expectation and costs $0.05"


def test_a_trial_that_pays_but_cannot_be_paid_for_is_named() -> None:
    assert why(left(0.20)) == (
        "the best of 2 further trials would save $0.20 in expectation and costs $0.05, "
        "which is more than the sweep has left"
    )


def test_a_saving_that_pays_but_is_within_noise_is_said_to_be() -> None:
    assert why(left(0.60, 0.0001)) == (
        "the best of 2 further trials would save $0.00051 in expectation and costs $0.0001; "
        "0.1% of the target run is within the noise of measuring it"
    )


def test_a_tiny_target_is_not_searched_for() -> None:
    assert why(left(0.10), 0.10, is_opening=True) == (
        "do not search, run this: trials could save $0.03 at most and one costs $0.05"
    )
    assert "do not search" not in why(left(10.0), 10.0, is_opening=True)


def test_what_cannot_be_priced_is_told_as_a_share() -> None:
    assert why(left(0.60, None)) == (
        "the best of 2 further trials would save 0.1% of the target run in expectation, which is within noise"
    )


def test_the_end_of_the_space_and_of_the_money() -> None:
    assert why([]) == "every configuration has been tried"
    assert why(left(100.0), None) == "no configuration that is left can be paid for"
