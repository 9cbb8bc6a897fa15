"""On a cluster that others use: how many GPUs a sweep holds, and how long its workers may take to start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from planner.cli_values import SweepFlags
from planner.commands.available_devices import AvailableDevices
from planner.commands.sweep import runner_settings
from planner.fleet import fleet_of, limited
from tests.builders import make_config, make_gpu
from tests.trials.places import identify, measure, probe
from trials.cluster.attach import attach
from trials.cluster.discovery import discover, free_counts
from trials.extras import Extras
from trials.measurement import Measurement
from trials.model_file.source import hash_workload
from trials.runner import open_runner
from trials.trial import Failure, Parallelism

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
MODEL = Path(__file__).parent.parent / "trials" / "faulty" / "model.py"
GPUS = {"L4": replace(make_gpu("L4"), device_names=("NVIDIA L4",))}


@pytest.fixture(params=["embedded", "attached"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str | None]:
    """A cluster of one node with four L4, started by the sweep itself or before it."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if request.param == "embedded":
        resources = '{"CPU": 4, "GPU": 4, "accelerator_type:L4": 1}'
        monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", resources)
        yield None
        return
    there = {"num_cpus": 4, "num_gpus": 4, "resources": {"accelerator_type:L4": 1}}
    cluster = Cluster(initialize_head=True, head_node_args=there)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def test_a_sweep_holds_no_more_gpus_than_it_may_and_gives_up_on_workers_that_do_not_start(
    address: str | None,
) -> None:
    flags = SweepFlags(model=MODEL, address=address, gpu_count=2)
    single = make_config("L4")
    pair = replace(single, gpu_count=2, parallelism=Parallelism.DDP)
    with attach(address):
        nodes = discover(probe=probe)
        fleet = fleet_of(nodes, GPUS, "x86_64")
        assert fleet.groups[0].worker_count_max == 4
        assert flags.gpu_count is not None
        found = limited(fleet, flags.gpu_count, free_counts(nodes, is_cpu=False))
        here = AvailableDevices(
            groups=found.groups, configs=(single, pair), exclusions=(), usd_per_hour={}, notes=()
        )
        settings = replace(runner_settings(here, flags, Extras()), measure=measure, identify=identify)
        with open_runner(hash_workload(MODEL), here.groups, settings) as runner:
            assert isinstance(runner(single), Measurement)
            assert runner.held() == {"L4": 2}  # as many as a later trial will want
            assert isinstance(runner(pair), Measurement)
            refused = runner(replace(pair, gpu_count=4))
            assert isinstance(refused, Failure)
            assert runner.held() == {"L4": 2}

        hasty = runner_settings(here, replace(flags, start_limit_s=0.01), Extras())
        with open_runner(hash_workload(MODEL), here.groups, hasty) as runner:
            late = runner(single)
            assert isinstance(late, Failure)
            assert "within 0 s" in late.reason
