from __future__ import annotations

from catalogs.gpus import GIB, DeviceKind
from planner.estimate import fit
from planner.estimate.memory.usable_memory import (
    CPU_PROCESS_BYTES,
    HOST_USABLE_FRACTION,
    OUTSIDE_ALLOCATOR_BYTES,
    is_fitting,
    usable_memory_bytes,
)
from planner.estimate.values import Basis
from tests.builders import (
    make_config,
    make_estimate,
    make_gpu,
    make_measurement,
)
from trials.measurement import Telemetry
from trials.trial import Parallelism

CONFIG = make_config("L4-24GB")
SHARED = Telemetry(
    sample_count=10,
    gpu_utilisation_fraction=None,
    memory_utilisation_fraction=None,
    sm_clock_hz=None,
    sm_clock_max_hz=None,
    power_w=None,
    power_limit_w=None,
    temperature_max_c=None,
    energy_j=None,
    throttle_reasons=(),
    other_process_count=2,
)
L4 = make_gpu("L4-24GB", memory_bytes=22 * GIB)


def test_without_a_trial_the_context_and_the_libraries_are_taken_off() -> None:
    assert usable_memory_bytes(DeviceKind.GPU, 22 * GIB, CONFIG) == 22 * GIB - OUTSIDE_ALLOCATOR_BYTES


def test_a_trial_on_a_card_of_its_own_says_what_can_be_reserved() -> None:
    alone = make_measurement(CONFIG, usable_memory_bytes=21 * GIB)
    beside_others = make_measurement(CONFIG, usable_memory_bytes=9 * GIB, telemetry=SHARED)

    estimator = fit([alone, beside_others], gpus={L4.name: L4})

    assert estimator.usable_memory_bytes(CONFIG, L4, 22 * GIB) == 21 * GIB


def test_workers_share_a_host_beside_their_processes() -> None:
    pair = make_config("CPU", gpu_count=4, node_count=2, parallelism=Parallelism.DDP)

    found = usable_memory_bytes(DeviceKind.CPU, 16 * GIB, pair)

    assert found == int(HOST_USABLE_FRACTION * (8 * GIB - CPU_PROCESS_BYTES))


def test_the_high_end_fits_or_the_trial_did() -> None:
    predicted, measured = make_estimate(1e9, 0.1), make_estimate(1e9, 0.1, Basis.MEASURED)

    assert not is_fitting(predicted, int(1.05e9), DeviceKind.GPU)
    assert is_fitting(predicted, int(1.1e9), DeviceKind.GPU)
    assert is_fitting(measured, int(0.9e9), DeviceKind.GPU)
    assert not is_fitting(measured, int(0.9e9), DeviceKind.CPU)
