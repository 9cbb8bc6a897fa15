import math
import random

import pytest

from planner.estimate import Basis, Estimate
from planner.search.acquisition import (
    Candidate,
    expected_best,
    expected_improvement,
    fit_probability,
    worth_of_searching,
)
from planner.search.proposal import Proposal
from planner.search.rules import explore, opening
from planner.search.situation import Untried
from tests.builders import GIB, make_config, make_estimate
from trials.trial import Parallelism, Precision, TrialConfig

CONFIDENCE = 0.9


def choose(
    candidates: list[Candidate], best: float | None, confidence: float, tried: list[TrialConfig]
) -> Proposal | None:
    """What the rules choose, if memory were no matter."""
    untried = Untried(candidates=candidates, best_cost=best)
    if opening.next_of_opening(candidates, tried) is not None:
        return opening.pick(untried, tried)
    return explore.pick(untried, confidence)


def lognormal(median: float, sigma: float) -> Estimate:
    z = 1.6448536269514722
    return Estimate(
        low=median * math.exp(-z * sigma),
        expected=median * math.exp(sigma**2 / 2),
        high=median * math.exp(z * sigma),
        basis=Basis.PREDICTED,
    )


def candidate(
    config: TrialConfig, run_cost: Estimate | None = None, trial_cost_usd: float | None = 0.01, **changes
) -> Candidate:
    return Candidate(
        **{
            "config": config,
            "run_cost": run_cost,
            "trial_cost_usd": trial_cost_usd,
            "memory": None,
            "memory_bytes": 24 * GIB,
            **changes,
        }
    )


@pytest.mark.parametrize(("best", "median", "sigma"), [(10, 8, 0.3), (10, 15, 0.5), (3, 3, 0.05)])
def test_expected_improvement_is_the_integral_it_claims_to_be(
    best: float, median: float, sigma: float
) -> None:
    draw = random.Random(0)
    samples = [max(best - median * math.exp(draw.gauss(0, sigma)), 0) for _ in range(200_000)]
    mean = sum(samples) / len(samples)
    assert expected_improvement(best, lognormal(median, sigma), CONFIDENCE) == pytest.approx(mean, rel=0.03)


@pytest.mark.parametrize("median", [8.0, 10.0, 13.0])
def test_what_trials_under_way_leave_is_the_expected_least_cost(median: float) -> None:
    under_way = candidate(make_config(), run_cost=lognormal(median, 0.3))
    draw = random.Random(0)
    costs = [median * math.exp(draw.gauss(0, 0.3)) for _ in range(200_000)]
    least = sum(min(10.0, one) for one in costs) / len(costs)
    assert expected_best([under_way], 10.0, CONFIDENCE) == pytest.approx(least, rel=0.003)


def test_beside_a_trial_another_is_not_worth_more_than_what_both_find_less_what_one_does() -> None:
    twin = lognormal(9.0, 0.2)
    draw = random.Random(0)
    pairs = [[9.0 * math.exp(draw.gauss(0, 0.2)) for _ in range(2)] for _ in range(200_000)]
    alone, both = (sum(max(10.0 - min(one[:n]), 0) for one in pairs) / len(pairs) for n in (1, 2))
    bar = expected_best([candidate(make_config(), run_cost=twin)], 10.0, CONFIDENCE)
    beside = expected_improvement(bar, twin, CONFIDENCE)
    assert 0.5 * (both - alone) < beside < both - alone < 0.6 * alone


def test_a_trial_under_way_that_may_not_fit_or_that_nobody_can_price_takes_less_from_the_others() -> None:
    cost = lognormal(8.0, 0.1)
    fits, may_not, unpriced = (
        candidate(make_config(), run_cost=cost),
        candidate(make_config(), run_cost=cost, memory=make_estimate(24 * GIB, 0.2)),
        candidate(make_config()),
    )
    left = [expected_best([one], 10.0, CONFIDENCE) for one in (fits, may_not, unpriced)]
    assert left == [*sorted(left[:2]), 10.0]
    assert left[0] < left[1] < left[2]


def test_memory_that_is_believed_to_be_twice_the_card_almost_never_fits() -> None:
    over = candidate(make_config(), memory=make_estimate(48 * GIB, 0.2))
    under = candidate(make_config(), memory=make_estimate(12 * GIB, 0.2))
    assert fit_probability(over, CONFIDENCE) < 0.001
    assert fit_probability(under, CONFIDENCE) > 0.999
    assert fit_probability(candidate(make_config()), CONFIDENCE) == 1.0


def test_the_first_trial_of_a_type_is_the_plainest() -> None:
    plain = make_config()
    others = [
        make_config(precision=Precision.BF16),
        make_config(techniques=("activation_checkpointing",)),
        make_config(techniques=("compile",)),
        make_config(gpu_count=2, parallelism=Parallelism.DDP, accumulation=2),
        make_config(micro_batch_size=32, accumulation=1),
    ]
    choice = choose([candidate(one) for one in [*others, plain]], None, CONFIDENCE, [])
    assert choice is not None
    assert choice.config == plain


def test_the_second_trial_is_the_same_at_another_micro_batch_size() -> None:
    larger = make_config(micro_batch_size=32, accumulation=1)
    other = make_config(precision=Precision.BF16)
    choice = choose([candidate(other), candidate(larger)], 5.0, CONFIDENCE, [make_config()])
    assert choice is not None
    assert choice.config == larger


def test_another_gpu_type_needs_no_opening() -> None:
    tried = [make_config(), make_config(micro_batch_size=32, accumulation=1)]
    cheaper = candidate(make_config("T4-16GB"), lognormal(80, 0.1), 0.5)
    dearer = candidate(make_config("A100-SXM4-40GB"), lognormal(300, 0.1), 0.5)
    choice = choose([dearer, cheaper], 100.0, CONFIDENCE, tried)
    assert choice is not None
    assert choice.config == cheaper.config


def test_the_first_trial_is_on_the_type_that_is_cheapest_to_try() -> None:
    dear, cheap = make_config("A100-SXM4-40GB"), make_config("T4-16GB")
    choice = choose([candidate(dear, None, 0.5), candidate(cheap, None, 0.1)], None, CONFIDENCE, [])
    assert choice is not None
    assert choice.config == cheap


def test_a_run_too_small_to_search_for_gets_one_trial() -> None:
    tried, larger = [make_config()], make_config(micro_batch_size=32, accumulation=1)
    tiny = [candidate(larger, lognormal(0.10, 0.2), 0.05)]
    assert choose(tiny, None, CONFIDENCE, []) is not None
    assert choose(tiny, 0.10, CONFIDENCE, tried) is None
    worth = worth_of_searching(tiny, 0.10)
    assert worth is not None
    assert 0 < worth.saving < worth.price == 0.05
    assert choose([candidate(larger, lognormal(100.0, 0.2), 0.05)], 100.0, CONFIDENCE, tried) is not None
    assert choose([candidate(larger, lognormal(0.10, 0.2), None)], 0.10, CONFIDENCE, tried) is not None


def test_a_device_without_a_price_must_save_a_share_of_the_run() -> None:
    tried = [make_config(), make_config(micro_batch_size=32, accumulation=1)]
    better = candidate(make_config(precision=Precision.BF16), lognormal(60, 0.1), None)
    hardly = candidate(make_config(precision=Precision.FP16), lognormal(130, 0.05), None)
    assert choose([better, hardly], 100.0, CONFIDENCE, tried).config == better.config
    assert choose([hardly], 100.0, CONFIDENCE, tried) is None


def test_then_the_largest_saving_per_dollar_wins() -> None:
    tried = [make_config(), make_config(micro_batch_size=32, accumulation=1)]
    cheap = candidate(make_config(precision=Precision.BF16), lognormal(60, 0.1), 0.5)
    dear = candidate(make_config(precision=Precision.FP16), lognormal(59, 0.1), 45.0)
    choice = choose([cheap, dear], 100.0, CONFIDENCE, tried)
    assert choice is not None
    assert choice.config == cheap.config
    assert choice.expected_saving == pytest.approx(40, abs=1)


def test_a_price_that_the_run_would_not_notice_makes_no_difference() -> None:
    tried = [make_config(), make_config(micro_batch_size=32, accumulation=1)]
    little = candidate(make_config(precision=Precision.BF16), lognormal(95, 0.02), 0.001)
    much = candidate(make_config(precision=Precision.FP16), lognormal(60, 0.02), 0.005)
    choice = choose([little, much], 100.0, CONFIDENCE, tried)
    assert choice is not None
    assert choice.config == much.config


def test_it_stops_when_no_trial_is_worth_its_price() -> None:
    tried = [make_config(), make_config(micro_batch_size=32, accumulation=1)]
    left = [candidate(make_config(precision=Precision.BF16), lognormal(99.0, 0.05), 50.0)]
    assert choose(left, 100.0, CONFIDENCE, tried) is None
    worse = [candidate(make_config(precision=Precision.BF16), lognormal(200.0, 0.05), 0.0)]
    assert choose(worse, 100.0, CONFIDENCE, tried) is None


def test_when_nothing_has_run_the_smallest_is_tried() -> None:
    tried = [make_config(), make_config(micro_batch_size=32, accumulation=1)]
    small = candidate(make_config(micro_batch_size=1, accumulation=32), memory=make_estimate(GIB))
    large = candidate(make_config(micro_batch_size=16, accumulation=2), memory=make_estimate(9 * GIB))
    choice = choose([large, small], None, CONFIDENCE, tried)
    assert choice is not None
    assert choice.config == small.config
    assert choose([], None, CONFIDENCE, tried) is None
