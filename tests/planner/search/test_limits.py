"""What a trial's saving is counted from where the target run has a budget or a deadline."""

from __future__ import annotations

import math

from planner.search.acquisition import Candidate, expected_improvement
from planner.search.limits import TargetRun, weighed
from planner.search.rules.explore import pick
from planner.search.situation import Untried
from tests.builders import GIB, make_config, make_estimate
from trials.trial import Precision

CONFIDENCE = 0.9
CHEAP, FAST = make_config(precision=Precision.BF16), make_config(precision=Precision.FP16)
LATE = TargetRun(cost=make_estimate(100.0), limit=-math.inf)


def candidate(config: object, usd: float, limit: float) -> Candidate:
    return Candidate(
        config=config,
        run_cost=make_estimate(usd, 0.2),
        trial_cost_usd=0.01,
        memory=None,
        memory_bytes=24 * GIB,
        limit=limit,
    )


def chosen(candidates: list[Candidate], best: TargetRun) -> object:
    counted, bar = weighed(candidates, best, CONFIDENCE)
    choice = pick(Untried(candidates=counted, best_cost=bar), CONFIDENCE)
    return None if choice is None else choice.config


def test_a_run_that_breaks_the_limits_saves_nothing() -> None:
    cost = make_estimate(80.0, 0.2)
    free, even, never = (
        expected_improvement(100.0, cost, CONFIDENCE, limit) for limit in (math.inf, 0.0, -math.inf)
    )
    assert free > even > never == 0.0


def test_a_cheaper_run_that_would_be_late_is_no_improvement_on_one_in_time() -> None:
    in_time = TargetRun(cost=make_estimate(100.0), limit=5.0)
    late, dear = candidate(CHEAP, 50.0, -5.0), candidate(FAST, 95.0, 5.0)
    assert chosen([late, dear], in_time) == FAST
    assert chosen([late], in_time) is None


def test_while_none_is_in_time_one_that_may_be_is_tried_at_any_cost() -> None:
    assert chosen([candidate(CHEAP, 50.0, -5.0), candidate(FAST, 300.0, 1.0)], LATE) == FAST


def test_where_none_can_be_in_time_the_cheapest_is_looked_for_all_the_same() -> None:
    assert chosen([candidate(CHEAP, 50.0, -5.0), candidate(FAST, 300.0, -5.0)], LATE) == CHEAP


def test_the_limits_are_kept_at_the_high_end_of_the_interval() -> None:
    short, enough = (TargetRun(cost=make_estimate(1.0), limit=limit) for limit in (1.64, 1.65))
    assert not short.keeps_limits(CONFIDENCE)
    assert enough.keeps_limits(CONFIDENCE)
