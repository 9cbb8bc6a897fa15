"""From what a study holds, the prices and the target to a report in every form, and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import planner
from planner.cli_values import OutputFlags
from planner.commands.prices import Prices
from planner.estimate import Estimator, fit
from planner.estimate.other_workloads import OtherWorkload, cross_workload_ratios
from planner.estimate.scaling.probe import slow_links
from planner.estimate.time.bottleneck import Bottleneck, bottleneck_of
from planner.estimate.time.peak_fraction import peak_fraction
from planner.exits import Exit
from planner.modes import TECHNIQUES
from planner.plans.batch_size import choose_batch_size
from planner.plans.numerics_check import guards
from planner.plans.recommend import recommend
from planner.plans.recommendation import Recommendation
from planner.plans.space import Knobs, configs_for
from planner.reports import to_json, to_terminal, write_reports
from planner.reports.curves import fitted_curves
from planner.reports.report import Report, SweepSummary, TrialRecord
from planner.study.reading import read_peers
from planner.study.saved import SavedStudy, SavedTrial, spent_on
from planner.target import Target, TargetFlags, resolve_target
from trials.api import Loading, Measurement, Outcome, WorkloadProfile


def retargeted(target: Target, flags: TargetFlags, profile: WorkloadProfile, model_file: str) -> Target:
    """The study's target with what the flags change."""
    changes: dict[str, Any] = {
        name: value
        for name in ("budget_usd", "deadline_s", "hour_value_usd")
        if (value := getattr(flags, name)) is not None
    }
    has_batch = flags.global_batch_size is not None
    if has_batch or _has_length(flags):
        wanted = flags if _has_length(flags) else replace(flags, samples=target.samples)
        own = replace(profile, hint=replace(profile.hint, global_batch_size=target.global_batch_size))
        resolved = resolve_target(wanted, own, model_file)
        changes |= {"samples": resolved.samples, "global_batch_size": resolved.global_batch_size}
        if has_batch:
            changes["batch_range"] = resolved.batch_range
    return replace(target, **changes)


def _has_length(flags: TargetFlags) -> bool:
    return any(one is not None for one in (flags.samples, flags.epochs, flags.tokens))


def estimator_of(study: SavedStudy, prices: Prices, peers: Mapping[str, OtherWorkload]) -> Estimator:
    """Fitted to all that the study holds, corrected by other studies."""
    return fit(
        [one.outcome for one in study.trials()],
        gpus=prices.gpus,
        profile=study.profile,
        confidence=prices.confidence,
        cross_workload=cross_workload_ratios(peers, prices.gpus),
    )


def _record(one: SavedTrial, profile: WorkloadProfile, prices: Prices) -> TrialRecord:
    outcome, fraction = one.outcome, None
    if isinstance(outcome, Measurement):
        fraction = peak_fraction(outcome, profile.traces, prices.gpus)
    return TrialRecord(number=one.number, outcome=outcome, cost_usd=one.cost_usd, peak_fraction=fraction)


def report_of(study: SavedStudy, target: Target, prices: Prices) -> Report:
    """The recommendation and all it rests on. Pure but for reading the study."""
    profile, trials = study.profile, study.trials()
    outcomes = [one.outcome for one in trials]
    measured = [one for one in outcomes if isinstance(one, Measurement)]
    peers = read_peers(study) if trials else {}  # they correct what was measured on a device
    estimator = estimator_of(study, prices, peers)
    knobs = knobs_of(trials)
    spent_usd = spent_on(trials)

    def recommend_at(wanted: Target) -> Recommendation:
        return recommend(
            target=wanted,
            profile=profile,
            offers=prices.considered,
            gpus=prices.gpus,
            outcomes=outcomes,
            estimator=estimator,
            configs_for=partial(configs_for, knobs=knobs),
            today=datetime.now(UTC).date(),
            filters=prices.filters,
            confidence=prices.confidence,
            assumptions=prices.assumptions,
            sweep_usd=spent_usd,
        )

    batch = None
    if target.batch_range is not None:
        batch = choose_batch_size(target, target.batch_range, measured, prices.confidence, recommend_at)
    recommendation = recommend_at(target) if batch is None else batch.chosen.answer
    return Report(
        recommendation=recommendation,
        batch=batch,
        study=study.name,
        workload=study.workload,
        profile=profile,
        trials=tuple(_record(one, profile, prices) for one in trials),
        exclusions=study.exclusions,
        sweep=SweepSummary(
            spent_usd=spent_usd,
            wall_s=sum(one.outcome.trial_s for one in trials) if trials else None,
            stopped_because=study.stopped_because,
        ),
        generated_at=datetime.now(UTC),
        planner_version=planner.__version__,
        notes=(*study.notes, *prices.notes, *corrections(peers)),
        curves=fitted_curves(outcomes, prices.gpus, estimator),
        slow_links=slow_links(measured, prices.gpus),
        guards=guards(outcomes),
        binding=_binding(outcomes, recommendation, profile, prices),
    )


def corrections(peers: Mapping[str, OtherWorkload]) -> tuple[str, ...]:
    """Which studies correct the estimates, in words; nothing where there are none."""
    if not peers:
        return ()
    return (
        "What is predicted from one device for another is corrected by what other studies of this storage "
        f"measured on both: {', '.join(sorted(peers))}.",
    )


def _binding(
    outcomes: Sequence[Outcome], answer: Recommendation, profile: WorkloadProfile, prices: Prices
) -> Bottleneck | None:
    """Of the winner's configuration where it was measured, else of the fastest that was."""
    split = [one for one in outcomes if isinstance(one, Measurement) and one.phases is not None]
    if not split:
        return None
    config = answer.winner.config if answer.winner is not None else None
    shown = max(split, key=lambda one: (one.config == config, one.throughput_per_s))
    return bottleneck_of(shown, profile, prices.gpus.get(shown.config.gpu))


def knobs_of(trials: Sequence[SavedTrial]) -> Knobs:
    """Compilation is planned where a trial has shown that it works, another way to load where timed."""
    configs = [one.outcome.config for one in trials if isinstance(one.outcome, Measurement)]
    loadings = dict.fromkeys([Loading(), *(one.loading for one in configs)])
    shown = {one for config in configs for one in config.techniques}
    techniques = {one.name: one.name in shown for one in TECHNIQUES if one.is_shown_first}
    return Knobs(techniques=techniques, loadings=tuple(loadings))


def publish(report: Report, output: OutputFlags) -> Exit:
    """Write every form of the report, print one, and give the exit code."""
    paths = write_reports(report, output.out)
    stream = sys.stderr if output.is_json else sys.stdout
    width = to_terminal.width_of(stream)
    if output.is_json:
        sys.stdout.write(to_json.render(report))
    print(to_terminal.render(report, width, is_coloured=stream.isatty()), file=stream)
    for path in paths:
        print(f"written: {path}", file=sys.stderr)
    return Exit.PLAN if report.recommendation.winner is not None else Exit.NOTHING_FITS
