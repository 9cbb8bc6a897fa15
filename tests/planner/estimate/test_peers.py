from __future__ import annotations

import math

import pytest

from catalogs.gpus import load_gpus
from planner.estimate import Hardware, fit
from planner.estimate.neighbours import Peer, witnesses_of
from planner.estimate.peers import Passage, Witness, hear
from tests.builders import make_config, make_measurement

GPUS = load_gpus()


def passage(workload: str, host_share: float = 0.0, kind: str = "bf16") -> Passage:
    return Passage(
        workload=workload,
        kind=kind,
        source_s=0.5,
        log_ratio=math.log(host_share + (1 - host_share) * 0.5),
        host_share=host_share,
        gpu_ratio=0.5,
    )


def witness(workload: str, factor: float, host_share: float = 0.0) -> Witness:
    """Another workload took ``factor`` times as long on the target as was predicted."""
    one = passage(workload, host_share)
    return Witness(passage=one, true_log_ratio=one.log_ratio + math.log(factor))


def test_agreeing_witnesses_move_the_prediction_most_of_the_way() -> None:
    heard = hear([witness(f"model {index}", 1.3) for index in range(20)])

    moved = heard.corrected(passage("mine")) - passage("mine").log_ratio

    assert moved == pytest.approx(math.log(1.3), rel=0.15)


def test_one_witness_is_half_believed() -> None:
    moved = hear([witness("one", 1.3)]).corrected(passage("mine")) - passage("mine").log_ratio

    assert 0.1 * math.log(1.3) < moved < 0.7 * math.log(1.3)


def test_a_workload_is_no_witness_for_itself() -> None:
    assert hear([witness("mine", 2.0)]).corrected(passage("mine")) == pytest.approx(
        passage("mine").log_ratio, abs=1e-6
    )


def test_a_slow_host_slows_only_what_the_host_bounds() -> None:
    heard = hear([witness(f"model {index}", 1.8, host_share=0.98) for index in range(10)])

    host_bound, gpu_bound = passage("a", host_share=0.95), passage("b", host_share=0.02)

    assert heard.corrected(host_bound) - host_bound.log_ratio > math.log(1.4)
    assert heard.corrected(gpu_bound) - gpu_bound.log_ratio < math.log(1.1)


def test_other_studies_correct_the_estimator_between_their_chips() -> None:
    l4, a100 = make_config("L4-24GB"), make_config("A100-SXM4-80GB")
    hardware = Hardware(gpu=GPUS[a100.gpu], link=GPUS[a100.gpu].link)
    mine = [make_measurement(l4, step_time_s=2.0)]
    plain = fit(mine, gpus=GPUS).step_time_s(a100, hardware)
    assert plain is not None
    others = {
        f"study {index}": Peer(
            measurements=[
                make_measurement(l4, step_time_s=2.0),
                make_measurement(a100, step_time_s=1.3 * plain.expected),
            ]
        )
        for index in range(10)
    }

    found = fit(mine, gpus=GPUS, witnesses=witnesses_of(others, GPUS)).step_time_s(a100, hardware)

    assert found is not None
    assert 1.15 < found.expected / plain.expected < 1.35
