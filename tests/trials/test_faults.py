"""Faults of real workers: each ends as a Failure with its reason, and the next trial is right.

The model in ``faulty/`` misbehaves on the last of two ranks while the first waits for it in a collective.
"""

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.builders import make_config
from tests.trials.faulty.model import FAULTS
from trials.cluster.attach import attach
from trials.cluster.discovery import discover
from trials.devices import DeviceGroup
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings
from trials.model_file.source import hash_workload
from trials.runner import RunnerSettings, open_runner
from trials.trial import FailureKind, Parallelism

pytestmark = [
    pytest.mark.ray,
    # Ray leaves sockets and log files to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
MODEL = Path(__file__).parent / "faulty" / "model.py"
LIMIT_S = 12.0
NO_LIMIT_S = 3600.0  # longer than any test may last
SIZES = {name: size for size, name in FAULTS.items()}
CPU = "CPU-X86"


@pytest.fixture(scope="module")
def run():
    with attach(cpu_count=2):
        nodes = discover()
        group = DeviceGroup(gpu=CPU, is_cpu=True, device_name=nodes[0].device_name, nodes=nodes)
        settings = RunnerSettings(
            worker_counts={CPU: 2},
            measure="tests.trials.faulty.told:measure",
            measure_settings=MeasureSettings(timed_max=10),
            limit_s=lambda config, seen: NO_LIMIT_S if config.accumulation > 1 else LIMIT_S,
        )
        with open_runner(hash_workload(MODEL), [group], settings) as run:
            yield run


def config(size=32, parallelism=Parallelism.DDP, count=2, accumulation=1):
    return make_config(
        CPU, gpu_count=count, micro_batch_size=size, accumulation=accumulation, parallelism=parallelism
    )


@pytest.fixture(scope="module")
def sane_losses(run):
    """What the trial yields in fresh workers, which were started before it."""
    run.start_early(config(count=1, parallelism=Parallelism.SINGLE))
    while not run.held():
        time.sleep(0.01)
    held_from_s = run.held_from_s()
    outcome = run(config())
    assert run.held_from_s() == held_from_s  # in these workers
    assert isinstance(outcome, Measurement), outcome
    return outcome.losses[:5]


def processes_of(outcome):
    """The workers' process ids, which `told.py` writes among the warnings."""
    return [warning for warning in outcome.warnings if warning.isdigit()]


def fail(run, fault, parallelism, sane_losses):
    """The failure of a faulty trial; the processes of the sane one after it, which yields what it should."""
    failure = run(config(SIZES[fault], parallelism))
    assert failure.trial_s > 0
    after = run(config(32, parallelism))
    assert isinstance(after, Measurement), after
    assert after.losses[:5] == pytest.approx(sane_losses, rel=1e-5)
    return failure, processes_of(after)


@pytest.mark.parametrize("parallelism", [Parallelism.DDP, Parallelism.FSDP2])
@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("exception", FailureKind.USER_CODE, "ValueError: injected (rank 1 of 2)"),
        ("out of memory", FailureKind.OUT_OF_MEMORY, "injected: CUDA out of memory (rank 1 of 2)"),
        ("out of memory everywhere", FailureKind.OUT_OF_MEMORY, "injected: CUDA out of memory (rank 0 of 2)"),
        ("sys.exit", FailureKind.USER_CODE, "the model file called sys.exit(0) (rank 1 of 2)"),
    ],
)
def test_what_a_rank_raises_alone_is_told_and_costs_no_restart(
    run, sane_losses, parallelism, fault, kind, reason
):
    processes = processes_of(run(config(32, parallelism)))
    assert len(processes) == 2
    failure, processes_after = fail(run, fault, parallelism, sane_losses)
    assert failure.kind is kind
    assert failure.reason.endswith(reason)
    assert processes_after == processes  # the other rank was released, not left to its limit and ended


@pytest.mark.slow
def test_a_hang_ends_at_the_limit_with_the_stacks(run, sane_losses):
    failure, _ = fail(run, "hang", Parallelism.DDP, sane_losses)
    assert failure.kind is FailureKind.TIMED_OUT
    assert failure.reason == "not done within its limit of 12 s"
    assert "in misbehave" in failure.detail
    assert "stacks of rank 0:" in failure.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "parallelism"), [("SIGKILL", Parallelism.FSDP2), ("os._exit", Parallelism.DDP)]
)
def test_a_rank_that_vanishes_is_named_and_nothing_of_it_reaches_our_output(
    run, sane_losses, fault, parallelism, capfd
):
    failure, _ = fail(run, fault, parallelism, sane_losses)
    assert capfd.readouterr() == ("", "")
    assert failure.kind is FailureKind.WORKER_LOST
    # Ray may end the other rank before it can tell that its neighbour is gone
    assert re.match(r"(rank|ranks 0,) 1 of 2 ended without a word", failure.reason)


@pytest.mark.slow
def test_a_device_that_refuses_every_later_call_costs_one_trial(run, sane_losses):
    failure, _ = fail(run, "device lost", Parallelism.DDP, sane_losses)
    assert "CUDA error: an illegal memory access" in failure.reason


def test_smaller_trials_run_in_the_same_workers_with_all_cores(run, sane_losses):
    processes = processes_of(run(config()))
    outcome = run(config(count=1, parallelism=Parallelism.SINGLE))
    assert isinstance(outcome, Measurement), outcome
    assert outcome.environment.threads_per_worker == 2
    assert set(processes_of(outcome)) < set(processes)


@pytest.mark.slow
def test_an_interrupt_ends_the_trial_at_once_and_the_next_one_finds_the_devices_free(run, sane_losses):
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored by what a script starts with "&"
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(config(SIZES["hang"], accumulation=2))
    finally:
        signal.signal(signal.SIGINT, before)
    after = run(config())
    assert isinstance(after, Measurement), after
    assert after.losses[:5] == pytest.approx(sane_losses, rel=1e-5)
