"""Step times against recordings by others: slices of them, and the whole sets beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.estimate import fit_reference, llm_foundry_h100, neusight, transfer, zeus_choice
from benchmarks.estimate.recorded import chips
from benchmarks.estimate.scores import exact_interval, leave_one_group_out, mape, worst_factor
from catalogs.gpus import load_gpus
from planner.estimate.time.chips import chip
from planner.estimate.time.operations import roofline_s, work_of
from planner.estimate.time.reference import reference
from tests.conftest import SLICES
from trials.trial import Precision


def test_neusight_rows_from_traces_alone(whole_sets: Path) -> None:
    gpus = load_gpus()
    found = neusight.from_trace(neusight.runs(whole_sets), gpus)
    rows = [row for _, row in found]

    assert len(rows) == 80
    assert mape(rows) < 0.089
    assert max(abs(row.error_fraction) for row in rows) < 0.35
    for run, row in found:
        on = chip(gpus[run.gpu], Precision.FP32)
        assert on is not None
        assert row.predicted > roofline_s(work_of(run.trace), on)


def test_mpt_on_h100_from_a100(measured_sets: Path) -> None:
    gpus = load_gpus()
    pairs = llm_foundry_h100.pairs(measured_sets).to_dict("records")
    rows = [llm_foundry_h100.predicted(pair, gpus)[1] for pair in pairs]

    assert len(rows) == (21 if measured_sets == SLICES else 39)
    assert mape(rows) < 0.085
    assert worst_factor(rows) < 1.55  # one row of 39, see docs/accuracy.md


def test_between_gpus_by_the_chips_figures(whole_sets: Path) -> None:
    gpus = chips()
    recorded = [one for one in transfer.recordings(whole_sets) if one.dataset in ("neusight", "llm-foundry")]
    found = transfer.predictions(recorded, gpus, has_peers=False)
    by_dataset = {
        name: [one.row for one in found if one.target.dataset == name] for name in ("neusight", "llm-foundry")
    }

    assert mape(by_dataset["neusight"]) < 0.13
    assert mape(by_dataset["llm-foundry"]) < 0.14
    assert all(worst_factor(rows) < 2.5 for rows in by_dataset.values())
    for one in found:
        assert one.source.gpu != one.target.gpu


def test_tensor_parallel_ranks_from_one_link_to_another(whole_sets: Path) -> None:
    recorded = [one for one in transfer.recordings(whole_sets) if one.dataset == "sailor"]
    rows = [one.row for one in transfer.predictions(recorded, chips(), has_peers=False)]
    coverage = leave_one_group_out(rows)
    low, high = exact_interval(coverage.hits, coverage.count)

    assert len(rows) == 648
    assert mape(rows) < 0.30
    assert low <= 0.9 <= high


def test_choosing_a_gpu_after_measuring_another(measured_sets: Path) -> None:
    ours = zeus_choice.regrets(measured_sets, zeus_choice.by_mean)
    baseline = zeus_choice.regrets(measured_sets, zeus_choice.by_geometric_mean)
    mean, mean_baseline = (
        sum(sum(mine) for mine in found.values()) / sum(len(mine) for mine in found.values())
        for found in (ours, baseline)
    )

    assert mean < 0.08
    assert mean < 0.8 * mean_baseline


def test_the_shipped_rates_are_those_of_the_script(whole_sets: Path) -> None:
    gpus, known = load_gpus(), reference()
    found = fit_reference.fitted(
        whole_sets, gpus["V100-PCIE-32GB"], fit_reference.CHIPS["V100-PCIE-32GB"], known.lane_tile_s
    )

    assert min(0.95, found.flop_per_s / 14.0e12) == pytest.approx(known.lane_fraction["7.0"], abs=0.01)
    assert 250.0 / found.flop_per_s == pytest.approx(known.fp32_flop_j["Volta"], rel=0.01)
