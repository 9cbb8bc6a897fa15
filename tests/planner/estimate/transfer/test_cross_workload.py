from __future__ import annotations

import math

import pytest

from catalogs.gpus import load_gpus
from planner.estimate import Hardware, fit
from planner.estimate.other_workloads import OtherWorkload, cross_workload_ratios
from planner.estimate.transfer.cross_workload import CrossWorkloadRatio, PredictedRatio, fit_cross_workload
from tests.builders import make_config, make_measurement

GPUS = load_gpus()


def predicted_ratio(workload: str, host_share: float = 0.0, kind: str = "bf16") -> PredictedRatio:
    return PredictedRatio(
        workload=workload,
        kind=kind,
        source_s=0.5,
        log_ratio=math.log(host_share + (1 - host_share) * 0.5),
        host_share=host_share,
        gpu_ratio=0.5,
    )


def measured_ratio(workload: str, factor: float, host_share: float = 0.0) -> CrossWorkloadRatio:
    """Another workload took ``factor`` times as long on the target as was predicted."""
    one = predicted_ratio(workload, host_share)
    return CrossWorkloadRatio(predicted=one, true_log_ratio=one.log_ratio + math.log(factor))


def test_agreeing_workloads_move_the_prediction_most_of_the_way() -> None:
    found = fit_cross_workload([measured_ratio(f"model {index}", 1.3) for index in range(20)])

    moved = found.corrected(predicted_ratio("mine")) - predicted_ratio("mine").log_ratio

    assert moved == pytest.approx(math.log(1.3), rel=0.15)


def test_one_other_workload_is_half_believed() -> None:
    moved = (
        fit_cross_workload([measured_ratio("one", 1.3)]).corrected(predicted_ratio("mine"))
        - predicted_ratio("mine").log_ratio
    )

    assert 0.1 * math.log(1.3) < moved < 0.7 * math.log(1.3)


def test_a_workload_does_not_correct_itself() -> None:
    assert fit_cross_workload([measured_ratio("mine", 2.0)]).corrected(
        predicted_ratio("mine")
    ) == pytest.approx(predicted_ratio("mine").log_ratio, abs=1e-6)


def test_a_slow_host_slows_only_what_the_host_bounds() -> None:
    found = fit_cross_workload(
        [measured_ratio(f"model {index}", 1.8, host_share=0.98) for index in range(10)]
    )

    host_bound, gpu_bound = predicted_ratio("a", host_share=0.95), predicted_ratio("b", host_share=0.02)

    assert found.corrected(host_bound) - host_bound.log_ratio > math.log(1.4)
    assert found.corrected(gpu_bound) - gpu_bound.log_ratio < math.log(1.1)


def test_other_studies_correct_the_estimator_between_their_chips() -> None:
    l4, a100 = make_config("L4-24GB"), make_config("A100-SXM4-80GB")
    hardware = Hardware(gpu=GPUS[a100.gpu], link=GPUS[a100.gpu].link)
    mine = [make_measurement(l4, step_time_s=2.0)]
    plain = fit(mine, gpus=GPUS).step_time_s(a100, hardware)
    assert plain is not None
    others = {
        f"study {index}": OtherWorkload(
            measurements=[
                make_measurement(l4, step_time_s=2.0),
                make_measurement(a100, step_time_s=1.3 * plain.expected),
            ]
        )
        for index in range(10)
    }

    found = fit(mine, gpus=GPUS, cross_workload=cross_workload_ratios(others, GPUS)).step_time_s(
        a100, hardware
    )

    assert found is not None
    assert 1.15 < found.expected / plain.expected < 1.35
