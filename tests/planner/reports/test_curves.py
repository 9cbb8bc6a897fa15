"""Curves beside what was measured."""

from __future__ import annotations

from planner.reports.curves import fitted_curves
from tests.builders import FakeEstimator, make_config, make_failure, make_measurement
from tests.planner.reports.studies import GPUS
from trials.measurement import Outcome
from trials.trial import Precision


def test_a_curve_for_each_measured_technique_up_to_twice_the_largest_size() -> None:
    outcomes: list[Outcome] = [
        make_measurement(make_config(micro_batch_size=4, accumulation=8)),
        make_measurement(make_config(micro_batch_size=2, accumulation=16)),
        make_measurement(make_config(precision=Precision.BF16)),
        make_failure(make_config(precision=Precision.FP16)),
        make_measurement(make_config("not in the catalog")),
    ]
    estimator = FakeEstimator(step_s=lambda config: float(config.accumulation), spread=0.5)
    curves = fitted_curves(outcomes, GPUS, estimator)
    sizes = [[one.config.micro_batch_size for one in curve.points] for curve in curves]
    assert sizes == [[1, 2, 4, 8], [1, 2, 4, 8, 16]]
    assert all(point.config.global_batch_size == 32 for curve in curves for point in curve.points)
    throughput = curves[0].points[2].throughput_per_s
    assert throughput is not None
    assert (throughput.low, throughput.expected, throughput.high) == (32 / 12, 4.0, 8.0)


def test_unknown_speed_leaves_a_gap_in_the_curve() -> None:
    estimator = FakeEstimator(step_s=lambda config: None)
    (curve,) = fitted_curves([make_measurement()], GPUS, estimator)
    assert all(one.throughput_per_s is None for one in curve.points)
