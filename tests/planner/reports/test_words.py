"""The very sentences that a reader acts on."""

from __future__ import annotations

import html
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from catalogs.offers import Offer, Pricing
from planner.plans.recommendation import Recommendation
from planner.reports import formats, labels, to_html, to_markdown, to_terminal, write_reports
from planner.reports.choices import choices
from planner.reports.report import Report
from planner.reports.sections.answer import headline
from planner.reports.sections.bill import not_counted
from planner.reports.sections.cautions import cautions
from planner.reports.sections.firmness import sensitivity_lines
from planner.reports.sections.frontier import time_value
from planner.reports.sections.plan import facts
from planner.reports.sections.plans import shown_plans
from planner.reports.sections.renting import ways_to_rent
from planner.reports.sections.settling import settling_lines
from planner.reports.sections.sources import small_print, sweep_lines
from planner.reports.sections.why import explanation
from tests.builders import (
    GIB,
    FakeEstimator,
    make_assumptions,
    make_config,
    make_environment,
    make_failure,
    make_measurement,
    make_offer,
    make_target,
)
from tests.planner.reports.studies import (
    A100,
    BF16,
    L4,
    OFFERS,
    STARTED,
    TRAINS,
    make_cpu_report,
    make_report,
    seconds,
)
from trials.measurement import Series
from trials.trial import FailureKind, Parallelism, Precision

LONG = 36_000 * 32  # samples


def plain(text: str) -> str:
    """With a plain letter for the multiplication sign."""
    return text.replace("\N{MULTIPLICATION SIGN}", "x")


def warnings(report: Report) -> tuple[str, ...]:
    return tuple(plain(one.text) for one in cautions(report))


def why(answer: Recommendation) -> str:
    return plain(explanation(answer))


def test_the_headline_says_what_to_rent() -> None:
    report = make_report()
    assert plain(headline(report.recommendation)) == "Rent 1 x L4 24 GB at Google Cloud, United States"
    winner = report.recommendation.winner
    assert winner is not None
    assert plain(labels.instance(winner)) == (
        "1 x g2-standard-8 (1 x L4-24GB), us-central1, on-demand, $0.720/h"
    )


def test_the_facts_carry_their_intervals_and_limits() -> None:
    report = make_report(target=make_target(samples=LONG, budget_usd=100.0, deadline_s=36_000.0))
    winner = report.recommendation.winner
    assert winner is not None
    said = {name: plain(text) for name, text in facts(report, winner)}
    assert said.pop("checkpoints").startswith("every 1 h, each pauses training for 0.0")
    assert said == {
        "cost": "$3.60 (90%: $3.53 to $3.67); $3.61 with the sweep's $0.01, of a budget of $100",
        "time": "5 h (90%: 4.9 to 5.1 h); deadline 10 h",
        "basis": "speed measured in this configuration on this device type and count",
        "throughput": "64 samples/s (90%: 62.7 to 65.3 samples/s); 36,000 steps of 500 ms",
        "configuration": "micro batch 8 x accumulation 4 = 32, bf16",
        "memory": "peak 2.0 GiB of 22.5 GiB for each worker, measured; up to 2.0 GiB, which leaves 91% free",
        "price": "$0.720/h on-demand on 1 June 2025",
    }


def test_the_share_of_the_peak_is_shown_where_this_configuration_was_measured() -> None:
    report = make_report()
    winner = report.recommendation.winner
    assert winner is not None
    trials = tuple(replace(one, peak_fraction=0.417) for one in report.trials)
    said = dict(facts(replace(report, trials=trials), winner))
    assert said["MFU"] == (
        "42% of the device's bf16 peak, measured (model FLOPs utilisation: recomputation does not count)"
    )
    elsewhere = tuple(one for one in trials if one.outcome.config != winner.config)
    assert "MFU" not in dict(facts(replace(report, trials=elsewhere), winner))


def test_why_this_one_and_not_the_next() -> None:
    estimator = FakeEstimator(step_s=seconds, spread=0.1, measured=(make_config(), BF16))
    assert why(make_report(estimator=estimator).recommendation) == (
        "1 x L4-24GB is the cheapest plan that keeps a budget of $100 and a deadline of 10 h at the high end "
        "of its interval. The next best on other devices is 1 x A100-SXM4-80GB (a2-ultragpu-1g from gcp, "
        "predicted): 4 times the speed at 5 times the hourly price, so the run would cost $4.50, $0.90 more."
    )


def test_a_tie_is_called_a_tie() -> None:
    text = why(make_cpu_report().recommendation)
    assert (
        "so the run would cost $4.50, $0.90 more. That is within the error of the two costs: neither is "
        "known to be cheaper. 1 other plan cannot be told apart from it in cost "
        "(1 x A100-SXM4-80GB)." in text
    )


def test_a_faster_plan_that_ties_with_the_cheapest_is_recommended_and_says_so() -> None:
    report = make_report((OFFERS[0], replace(OFFERS[1], price_usd_per_hour=3.0)))
    assert why(report.recommendation).startswith(
        "1 x A100-SXM4-80GB is the fastest of the plans that cannot be told apart in cost from the cheapest "
        "that keeps a budget of $100 and a deadline of 10 h at the high end of its interval, which is 1 x "
        "L4-24GB at $3.60 in 5 h. The next best on other devices is 1 x L4-24GB (g2-standard-8 from gcp, "
        "measured): 0.25 times the speed at 0.24 times the hourly price, so the run would cost $3.60, $0.15 "
        "less. That is within the error of the two costs: neither is known to be cheaper."
    )
    titles = [(one.title, one.plan.offer.gpu) for one in choices(report.recommendation)]
    assert titles == [("Best balance and fastest within the budget", A100.name), ("Cheapest", L4.name)]


def test_a_cheaper_plan_past_the_deadline_is_said_to_be_passed_over() -> None:
    report = make_report(target=make_target(samples=LONG, budget_usd=100.0, deadline_s=2 * 3600.0))
    assert why(report.recommendation).startswith(
        "1 x A100-SXM4-80GB is the cheapest plan that keeps a budget of $100 and a deadline of 2 h at the "
        "high end of its interval. 1 plan with a lower expected cost was passed over: 1 x L4-24GB at $3.60, "
        "may take up to 5.1 h, past the deadline of 2 h. The next best on other devices is 8 vCPUs (CPU-X86)"
    )


def test_nothing_fits_says_what_would_have_to_give() -> None:
    report = make_report(target=make_target(samples=LONG, budget_usd=1.0, deadline_s=3600.0))
    assert headline(report.recommendation) == "Nothing fits a budget of $1 and a deadline of 1 h"
    assert why(report.recommendation) == (
        "No plan keeps a budget of $1 and a deadline of 1 h at 90% confidence. The nearest is 1 x "
        "g2-standard-8 from gcp (1 x L4-24GB, us-central1, on-demand, $0.720/h): $3.61 (up to $3.68) with "
        "the sweep, in 5 h (up to 5.1 h). To make it fit, raise the budget to $3.69 and extend the deadline "
        "to 5.1 h, or train at most 225,856 of the 1,152,000 samples."
    )


def test_nothing_fits_by_the_error_bar_alone_says_that_a_measurement_may_settle_it() -> None:
    offers = [make_offer(A100.name, price_usd_per_hour=3.6)]
    report = make_report(offers, target=make_target(samples=LONG, budget_usd=5.0))
    assert why(report.recommendation).endswith(
        "In expectation it does fit; only the high end does not, so a measurement on that device may settle "
        "it."
    )


def test_less_than_provisioning_leaves_room_for_no_sample() -> None:
    report = make_report(target=make_target(samples=LONG, budget_usd=0.01))
    assert "and no number of samples fits" in why(report.recommendation)


def test_no_offer_large_enough_names_the_memory_that_lacks() -> None:
    report = make_report(outcomes=(), estimator=FakeEstimator(peak_bytes=lambda _: 100.0 * GIB))
    assert headline(report.recommendation) == "No offer can carry this run"
    assert why(report.recommendation) == (
        "None of the 3 offers in the catalog carries a plan: the model does not fit its memory at any micro "
        "batch size (3). The nearest to fitting needs 110.0 GiB per worker at the high end, on 78.5 GiB of "
        "memory."
    )


def test_the_first_warning_is_that_no_gpu_was_measured() -> None:
    first, *_ = cautions(make_cpu_report())
    assert first.is_first
    assert first.text == (
        "No GPU was measured: every GPU figure is predicted from trials on CPU-X86 and the GPUs' data "
        "sheets, with wide intervals."
    )
    useful, rest = settling_lines(make_cpu_report().recommendation)
    assert plain(useful) == (
        "A trial of 6 min on 1 x L4-24GB (g2-standard-8 from gcp, on-demand), about $0.07, would decide "
        "between rank 1 (1 x L4-24GB) and rank 2 (1 x A100-SXM4-80GB): 1 x L4-24GB is now believed to cost "
        "$1.80 to $5.40. Expected saving: $0.20."
    )
    assert "could change the choice (1 x A100-SXM4-80GB) would cost more to measure" in plain(rest)


def test_without_any_trial_the_first_warning_says_so() -> None:
    report = make_report(outcomes=(), estimator=FakeEstimator(step_s=seconds, spread=0.5))
    assert warnings(report)[0].startswith(
        "Nothing was measured: every figure is predicted from the operations of one step"
    )


def test_a_model_file_that_fails_in_every_trial_is_the_first_thing_said() -> None:
    error = make_failure(kind=FailureKind.USER_CODE, reason="model.py, line 7: ValueError: batch 41")
    report = make_report(outcomes=(error, error), estimator=FakeEstimator(step_s=seconds, spread=0.5))
    first, second, *_ = warnings(report)
    assert first == (
        "The model file failed twice in a row: model.py, line 7: ValueError: batch 41. Correct it and sweep "
        "again."
    )
    assert second.startswith("Nothing was measured: every figure is predicted from the operations")
    assert headline(report.recommendation).endswith(", by the trace alone")
    text = to_terminal.render(report)
    assert text.index("failed twice in a row") < text.index("Nothing was measured") < text.index("Rent ")


def test_trials_that_all_fail_are_named_before_the_answer() -> None:
    lost = make_failure(kind=FailureKind.WORKER_LOST, reason="the node left")
    report = make_report(outcomes=(lost,), estimator=FakeEstimator(step_s=seconds, spread=0.5))
    assert warnings(report)[0] == "No trial succeeded; the last one: worker lost: the node left."


def test_with_a_measured_gpu_a_trial_that_would_settle_the_choice_is_named() -> None:
    estimator = FakeEstimator(step_s=seconds, spread=0.5, measured=(make_config(), BF16))
    report = make_report(estimator=estimator)
    assert not any(one.is_first for one in cautions(report))
    (step,) = settling_lines(report.recommendation)
    assert plain(step) == (
        "A trial of 6 min on 1 x A100-SXM4-80GB (a2-ultragpu-1g from gcp, on-demand), about $0.36, would "
        "decide between rank 1 (1 x L4-24GB) and rank 2 (1 x A100-SXM4-80GB): 1 x A100-SXM4-80GB is now "
        "believed to cost $2.25 to $6.75. Expected saving: less than it costs."
    )


def test_a_choice_that_no_measurement_would_change_needs_no_next_step() -> None:
    estimator = FakeEstimator(step_s=seconds, spread=0.1, measured=(make_config(), BF16))
    assert settling_lines(make_report(estimator=estimator).recommendation) == ()


def test_what_would_flip_the_choice_is_marked_and_said_in_numbers() -> None:
    firm, others, speed = sensitivity_lines(make_report().recommendation)
    assert [one.is_yes for one in (firm, others, speed)] == [False, False, False]
    assert plain(firm.text) == (
        "Its price 10% up: still the best; 25% more would make rank 2 win (1 x A100-SXM4-80GB)."
    )
    assert plain(others.text) == "Other prices 10% down: still the best."
    assert plain(speed.text) == (
        "Its speed at the low end (steps 2% longer): still the best; 25% longer would make rank 2 win (1 x "
        "A100-SXM4-80GB)."
    )
    close = (OFFERS[0], replace(OFFERS[1], price_usd_per_hour=3.0))
    dearer, _, _ = sensitivity_lines(make_report(close).recommendation)
    assert dearer.is_yes
    assert plain(dearer.text) == "Its price 10% up: rank 1 wins, 1 x L4-24GB; 5.6% more is enough."


def test_an_old_price_is_said_with_the_rise_that_it_can_bear() -> None:
    old = (replace(OFFERS[0], as_of=date(2025, 3, 1)), OFFERS[1])
    line = sensitivity_lines(make_report(old).recommendation)[-1]
    assert line.is_yes  # 93 days allow for a drift of 31%
    assert plain(line.text) == (
        "Its price is 93 days old: 25% more would make rank 2 win (1 x A100-SXM4-80GB)."
    )


def test_the_value_of_an_hour_picks_the_faster_plan_and_is_explained() -> None:
    target = make_target(samples=LONG, budget_usd=100.0, hour_value_usd=1.0)
    answer = make_report(target=target).recommendation
    assert answer.winner is not None
    assert answer.winner.offer.gpu == A100.name  # $4.50 and 1.25 h against $3.60 and 5 h
    assert why(answer).startswith(
        "With $1 for an hour of waiting, 1 x A100-SXM4-80GB is the plan that keeps a budget of $100 at the "
        "high end of its interval whose bill and waiting add up to least: $4.50 and $1.25 for 1.25 h. The "
        "next best on other devices is 1 x L4-24GB"
    )
    assert plain(time_value(answer)) == (
        "By what an hour of waiting is worth (--hour-value), the best plan is: 1 x L4-24GB ($3.60 in 5 h), "
        "from $0.24 1 x A100-SXM4-80GB ($4.50 in 1.25 h)."
    )
    report = make_report(target=target)
    for render in (to_markdown.render, to_html.render, to_terminal.render):
        text = render(report)
        assert "with waiting" in text.lower()
        assert "$5.75" in text  # by which rank 1 is before $8.60
        assert "with waiting" not in render(make_report()).lower()


def test_an_old_price_is_said_at_the_plan_and_the_rest_in_the_small_print() -> None:
    offers = [
        make_offer(as_of=date(2025, 4, 1), price_usd_per_hour=0.7),
        make_offer(pricing=Pricing.SPOT, as_of=date(2025, 5, 20), price_usd_per_hour=0.3),
    ]
    report = make_report(offers)
    winner = report.recommendation.winner
    assert winner is not None
    assert dict(facts(report, winner))["price"] == (
        "$0.700/h on-demand on 1 April 2025, 62 days old: check it before renting; `planner catalog refresh` "
        "fetches today's prices"
    )
    assert "$0.700/h, 62 days old" in to_terminal.render(report)
    assert (
        "Prices: 1 on-demand or reserved price over 30 days old and 1 spot price over a day old, the oldest "
        "from 1 April 2025; `planner catalog refresh` fetches today's."
    ) in small_print(report)
    assert not any("days old" in one for one in warnings(report))
    assert "days old" not in to_terminal.render(make_report())


def test_a_measured_device_that_nobody_offers_is_warned_of() -> None:
    assert f"{L4.name} was measured, but no offer in the catalog has it." in warnings(
        make_report([OFFERS[1]])
    )


def test_words_table_and_plot_tell_of_the_same_plans() -> None:
    spot = replace(
        spot_offers(None)[1], price_usd_per_hour=0.05
    )  # cheap, and nobody knows how often it is lost
    report = make_report((*OFFERS, spot))
    answer = report.recommendation
    assert not all(one.is_cost_known for one in answer.plans)
    assert all(one.is_cost_known for one in answer.frontier)
    told = {one.plan.rank for one in (*answer.time_values, *choices(answer))}
    assert told <= {one.rank for one in answer.frontier}
    assert told <= {one.rank for one in shown_plans(answer, 2)}


def test_what_the_sweep_took_and_why_it_ended() -> None:
    assert sweep_lines(make_report()) == (
        "Sweep: 3 trials (1 failed) in 1 min 15 s, $0.01 at catalog prices.",
        "It ended: no trial is worth its price.",
    )


def test_where_the_numbers_come_from() -> None:
    assert small_print(make_report(notes=("node-2: left out",))) == (
        "Measured on NVIDIA L4, driver 550.54.15, CUDA 12.4, torch 2.8.0, Ray 2.55.0, Python 3.11.9, "
        "8 host CPUs.",
        "Offers: 3 in the catalog.",
        "node-2: left out.",
        "Workload /models/gpt.py (sha256 0123456789ab), 1 M parameters; study gpt-01234567; planner 0.1.0, "
        "2 June 2025, 14:03 UTC.",
    )


def test_configurations_in_full_and_in_short() -> None:
    config = make_config(
        gpu_count=2, accumulation=2, precision=Precision.BF16, parallelism=Parallelism.FSDP2,
        techniques=("activation_checkpointing", "compile"),
    )  # fmt: skip
    assert plain(labels.configuration(config)) == (
        "micro batch 8 x accumulation 2 x 2 workers = 32, bf16, FSDP2, activation checkpointing, "
        "torch.compile"
    )
    assert labels.technique(config) == "bf16, FSDP2, checkpointed, compiled"
    assert plain(labels.split(config)) == "8 x 2"


def test_outcomes_in_a_cell() -> None:
    assert labels.outcome(make_measurement()) == "measured"
    assert labels.outcome(make_measurement(is_steady=False)) == "measured, unsteady"
    lost = make_failure(kind=FailureKind.WORKER_LOST, reason="the node left")
    assert labels.outcome(lost) == "worker lost: the node left"


def test_a_plan_whose_trial_was_disturbed_is_said_to_be_less_sure() -> None:
    fast = make_measurement(BF16, step_time_s=0.5, is_steady=False, **STARTED)
    text = "The last trial of this configuration was unsteady"
    assert any(one.startswith(text) for one in warnings(make_report(outcomes=(fast,))))
    assert not any(one.startswith(text) for one in warnings(make_report()))


def test_a_plan_in_arithmetic_that_nobody_compared_is_said_to_be_one() -> None:
    text = "No trial compared the losses of bf16 and fp32"
    assert any(one.startswith(text) for one in warnings(make_report()))
    assert not any(one.startswith(text) for one in warnings(make_report(guards=(TRAINS,))))


def test_a_launch_bound_plan_is_said_to_be_one_in_every_form(tmp_path: Path) -> None:
    bound = make_report(
        estimator=FakeEstimator(step_s=seconds, measured=(make_config(), BF16), host_share=0.7)
    )
    warning = "launch-bound: for about 70% of each step L4-24GB is expected to wait"
    assert any(warning in one for one in warnings(bound))
    for path in write_reports(bound, tmp_path):
        assert warning in html.unescape(path.read_text(encoding="utf-8")).replace("\N{NO-BREAK SPACE}", " ")
    assert "launch-bound: for about 70%" in " ".join(to_terminal.render(bound, 100).split())
    free = make_report(
        estimator=FakeEstimator(step_s=seconds, measured=(make_config(), BF16), host_share=0.4)
    )
    assert not any("launch-bound" in one for one in warnings(free))


def spot_offers(rate_per_hour: float | None) -> list[Offer]:
    """The same instance on demand and, at a third of the price, on spot."""
    same = {"instance_type": "g2-standard-8", "region": "us-central1"}
    spot = make_offer(
        pricing=Pricing.SPOT, price_usd_per_hour=0.24, interruption_rate_per_hour=rate_per_hour, **same
    )
    return [make_offer(price_usd_per_hour=0.72, **same), spot]


def test_interruptions_checkpoints_and_lateness_of_a_spot_plan_are_said() -> None:
    report = make_report(spot_offers(0.1), target=make_target(samples=LONG, deadline_s=36_000.0))
    best = report.recommendation.best
    assert best is not None
    said = {name: plain(text) for name, text in facts(report, best)}
    assert said["interruptions"].startswith(
        "one every 10 h of all instances together, from the catalog: 0.5 expected; rent from $1.1"
    )
    assert "the deadline is missed in " in said["interruptions"]
    assert "(Daly 2006)" in said["checkpoints"]
    assert said["a restart"].endswith("start-up 0 s, compilation and warm-up 0 s; billed")
    assert said["waits"].startswith("30 min on average until there is capacity again, not billed")
    assert said["waits"].endswith("76% in the worst window.")
    assert any("rests on waits for capacity" in one for one in warnings(report))
    text = plain(ways_to_rent(report.recommendation))
    for shown in (to_terminal.render(report), to_markdown.render(report), to_html.render(report)):
        assert "Ways to rent" in " ".join(shown.split())
    assert "Ways to rent g2-standard-8, by expected rent: spot $1.2" in text
    assert "; on-demand $3.60 (" in text
    assert (
        "Of these spot suits this run: the cheapest on average of those that keep the deadline. Spot alone"
        in text
    )
    choice = report.recommendation.policies
    assert choice is not None
    assert choice.discount_fraction == pytest.approx(2 / 3)
    assert choice.break_even_discount_fraction is not None
    assert 0 < choice.break_even_discount_fraction < 0.1
    pays_from = formats.percent(choice.break_even_discount_fraction)
    assert text.endswith(f"costs less than on-demand from a discount of {pays_from} on; it is 67%.")


def test_what_the_user_states_of_checkpoints_and_waits_holds() -> None:
    stated = replace(make_assumptions(), save_interval_s=600.0, spot_wait_s=7200.0)
    target = make_target(samples=LONG, deadline_s=40_000.0)
    on_demand = make_report(assumptions=stated, target=target).recommendation.best
    assert on_demand is not None
    assert on_demand.checkpoint_interval_s == 600.0
    soon, late = (
        make_report(spot_offers(0.1), assumptions=one, target=target).recommendation.plans[0]
        for one in (make_assumptions(), stated)
    )
    assert soon.spot is not None
    assert late.spot is not None
    assert late.spot.job.wait_s == 7200.0
    assert late.held_s == soon.held_s  # which is what is paid
    assert late.duration_s.high > soon.duration_s.high


def test_unknown_interruptions_are_said_with_what_would_still_pay() -> None:
    text = why(make_report(spot_offers(None)).recommendation)
    assert "1 plan with a lower expected cost was passed over" in text
    assert "may be interrupted, nobody publishes how often" in text


def test_the_bill_names_what_it_leaves_out() -> None:
    report = make_report()
    best = report.recommendation.best
    assert best is not None
    left_out = not_counted(best)
    assert left_out.startswith("Not counted: data set: its size is not known")
    for text in (to_terminal.render(report), to_markdown.render(report), to_html.render(report)):
        assert "Cost breakdown" in text
        assert "Not counted" in text


def test_what_an_upgrade_changed_is_said_with_its_interval() -> None:
    old, new = make_environment(torch="2.7.1"), make_environment(torch="2.8.0")
    sizes = [replace(BF16, micro_batch_size=size) for size in (2, 4, 8)]
    before = [make_measurement(one, step_time_s=1.0, environment=old, **STARTED) for one in sizes]
    after = [make_measurement(one, step_time_s=1.06, environment=new, **STARTED) for one in sizes]
    (said,) = [one for one in warnings(make_report(outcomes=(*before, *after))) if one.startswith("Since")]
    assert said == (
        "Since torch 2.8.0 (before: 2.7.1) a step takes +6% (90%: +3% to +9%), by 3 configurations measured "
        "under both; earlier trials count with that."
    )
    assert not any(one.startswith("Since") for one in warnings(make_report(outcomes=before)))


def test_a_step_is_called_the_mean_that_it_is() -> None:
    skewed = Series(accumulation=4, step_times_s=(1.0, 1.0, 1.0, 1.1, 1.2, 1.3))  # mean 1.1, median 1.05
    report = make_report(
        outcomes=(make_measurement(BF16, series=(skewed,), half_width_fraction=0.1, **STARTED),)
    )
    text = to_html.render(report)
    assert "1.1 s" in text
    assert "half width of the mean" in text
    for shown in (text, to_markdown.render(report), to_terminal.render(report)):
        assert "median" not in shown
    (measured,) = report.measurements
    throughput = report.measured_throughput(measured)
    assert throughput.high == pytest.approx(measured.config.global_batch_size / (1.1 * 0.9))


def test_the_head_has_the_three_warnings_that_could_cost_most_and_the_page_folds_the_rest() -> None:
    fast = make_measurement(BF16, step_time_s=0.5, is_steady=False, **STARTED)
    report = make_report(
        outcomes=(fast, make_measurement(make_config("A100-SXM4-40GB"))),
        estimator=FakeEstimator(step_s=seconds, measured=(make_config(), BF16), host_share=0.7),
    )
    unguarded, launch_bound, disturbed, unpriced = cautions(report)
    assert unguarded.usd > launch_bound.usd > disturbed.usd > unpriced.usd == 0.0
    assert "launch-bound" in launch_bound.text
    assert "no offer in the catalog has it" in unpriced.text
    page = html.unescape(to_html.render(report))
    head, _, rest = page.partition("<details")
    assert disturbed.text in head
    assert unpriced.text not in head
    assert unpriced.text in rest
    for text in (to_markdown.render(report), to_terminal.render(report)):
        assert "More to know before renting" in text
