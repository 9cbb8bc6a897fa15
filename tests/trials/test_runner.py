"""Trials on a cluster of fake nodes with different GPUs, by real Ray and Ray Train."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster as FakeCluster

from tests.builders import make_config
from tests.trials.places import CARDS, Register, identify, measure, measure_in_company, probe
from trials.cluster.attach import attach
from trials.cluster.discovery import discover, wait_for_devices
from trials.devices import DeviceGroup
from trials.errors import TrialsError
from trials.measurement import Measurement
from trials.model_file.source import hash_workload
from trials.runner import RunnerSettings, open_runner
from trials.trial import FailureKind

pytestmark = [
    pytest.mark.ray,
    # Ray leaves sockets and log files to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
MODEL = Path(__file__).parent / "faulty" / "model.py"
SETTINGS = RunnerSettings(measure=measure, identify=identify)


@pytest.fixture(scope="module")
def groups():
    """An attached cluster: one A100 on the head, two L4 on another node, a T4 on each of two more."""
    cluster = FakeCluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "num_gpus": 1, "resources": {"accelerator_type:A100": 1}},
    )
    cluster.add_node(num_cpus=2, num_gpus=2, resources={"accelerator_type:L4": 1})
    for _ in range(2):
        cluster.add_node(num_cpus=1, num_gpus=1, resources={"accelerator_type:T4": 1})
    try:
        with attach(cluster.address):
            nodes = discover(probe=probe)
            yield {
                kind: DeviceGroup(
                    gpu=kind,
                    is_cpu=False,
                    device_name=name,
                    nodes=tuple(node for node in nodes if node.device_name == name),
                )
                for kind, name in CARDS.items()
            }
    finally:
        cluster.shutdown()


@pytest.fixture
def workload():
    return hash_workload(MODEL)


def test_each_node_is_found_with_its_own_devices(groups):
    (a100,), (l4,) = groups["A100"].nodes, groups["L4"].nodes
    assert (a100.gpu_count, a100.accelerator_type) == (1, "A100")
    assert (l4.gpu_count, l4.accelerator_type) == (2, "L4")
    assert a100.node_id != l4.node_id


def test_nodes_without_a_driver_are_not_taken_for_what_ray_calls_them(groups):
    names = {node.device_name for node in discover() if node.gpu_count}
    assert all(name.startswith("GPU of unknown name") for name in names)


def test_a_probe_that_fails_leaves_the_node_out_and_says_so(groups):
    problems = []

    def fail_on_l4(entry):
        if "accelerator_type:L4" in entry["Resources"]:
            raise RuntimeError("no answer today")
        return probe(entry)

    nodes = discover(probe=fail_on_l4, on_problem=problems.append)
    assert "L4" not in [node.accelerator_type for node in nodes]
    assert "is left out: RuntimeError: no answer today" in problems[0]


def test_a_trial_lands_on_a_node_of_its_type_and_types_run_side_by_side(groups, workload):
    impostor = replace(groups["L4"], gpu="L40S", device_name="NVIDIA L40S")
    with open_runner(workload, [*groups.values(), impostor], SETTINGS) as run:
        with ThreadPoolExecutor() as pool:
            kinds = ("A100", "L4", "L40S")
            outcomes = dict(zip(kinds, pool.map(lambda kind: run(make_config(kind)), kinds), strict=True))
        for kind, name in list(CARDS.items())[:2]:
            assert isinstance(outcomes[kind], Measurement)
            assert outcomes[kind].environment.device_name == name
        assert outcomes["L40S"].kind is FailureKind.WRONG_DEVICE
        assert outcomes["L40S"].reason == "the trial is for NVIDIA L40S, but the worker runs on NVIDIA L4"

        held_from_s = run.held_from_s()
        assert isinstance(run(make_config("A100", micro_batch_size=2)), Measurement)
        assert run.held_from_s() == held_from_s  # warm: in the workers that were there

        unknown = make_config("H100")
        with pytest.raises(TrialsError, match="no H100 in the cluster; it has A100, L4, L40S, T4"):
            run(unknown)
    assert wait_for_devices(groups["L4"], 2, timeout_s=20.0)  # closing gave them back


@pytest.mark.slow
def test_nodes_of_one_type_run_side_by_side_and_a_trial_of_both_has_them_to_itself(groups, workload):
    register = ray.remote(num_cpus=0)(Register).remote(2)
    settings = replace(SETTINGS, measure=measure_in_company, measure_settings=register)
    wide = make_config("T4", gpu_count=2, node_count=2)
    first, second, third = (make_config("T4", micro_batch_size=size) for size in (1, 2, 4))
    with open_runner(workload, [groups["T4"]], settings) as run:
        assert run.has_room(wide, [])
        assert run.has_room(first, [second])
        assert not run.has_room(first, [second, third])
        assert not run.has_room(wide, [first])
        assert isinstance(run(wide), Measurement)
        assert run.held() == {"T4": 2}
        with ThreadPoolExecutor() as pool:  # each ends when both are under way
            outcomes = list(pool.map(run, (first, second)))
        assert [type(one) for one in outcomes] == [Measurement, Measurement]
        assert run.held() == {"T4": 2}
        assert ray.get(register.seen.remote(4)) == [(2, 1), (2, 2), (1, 1), (1, 2)]
        assert run.has_room(first, [second])
        ray.get(register.expect.remote(100))
        with_no_end = ThreadPoolExecutor()
        cut_off = [with_no_end.submit(run, one) for one in (first, second)]
        ray.get(register.seen.remote(6))
    assert [one.result().kind for one in cut_off] == [FailureKind.WORKER_LOST] * 2  # closing ended them
    ray.kill(register)
    assert wait_for_devices(groups["T4"], 1, node_count=2, timeout_s=20.0)


@pytest.mark.slow
def test_a_node_that_others_use_has_no_room_beside_a_trial(groups, workload):
    holder = ray.remote(num_gpus=1)(Holder).options(resources={"accelerator_type:T4": 0.001}).remote()
    ray.get(holder.ping.remote())
    first, second = (make_config("T4", micro_batch_size=size) for size in (1, 2))
    with open_runner(workload, [groups["T4"]], SETTINGS) as run:
        assert run.has_room(first, [])
        assert not run.has_room(first, [second])
    ray.kill(holder)
    assert wait_for_devices(groups["T4"], 1, node_count=2, timeout_s=20.0)


def test_more_workers_than_there_are_is_refused_at_once(groups, workload):
    with open_runner(workload, list(groups.values()), SETTINGS) as run:
        failure = run(make_config("L4", gpu_count=4))
    assert failure.kind is FailureKind.UNSUPPORTED
    assert "4 x L4 on 1 node(s) is more than the cluster has (2 by node)" in failure.reason


@pytest.mark.slow
def test_devices_that_others_use_are_waited_for_with_a_message(groups, workload):
    holder = ray.remote(num_gpus=1)(Holder).options(resources={"accelerator_type:A100": 0.001}).remote()
    ray.get(holder.ping.remote())
    said = []
    settings = replace(SETTINGS, wait_s=1.5, on_wait=said.append)
    with open_runner(workload, list(groups.values()), settings) as run:
        failure = run(make_config("A100"))
    ray.kill(holder)
    assert failure.kind is FailureKind.BUSY
    assert failure.reason == "1 x A100 did not become free within 2 s"
    assert said == ["waiting for 1 x A100 on one node: 0 free now, the rest is in use"]
    assert wait_for_devices(groups["A100"], 1, timeout_s=20.0)


@pytest.mark.slow
def test_workers_that_are_only_starting_are_ended_too(groups, workload):
    with open_runner(workload, [groups["A100"]], SETTINGS) as run:
        run.start_early(make_config("A100"))
        while not run.held():
            time.sleep(0.01)
    assert wait_for_devices(groups["A100"], 1, timeout_s=20.0)


@pytest.mark.slow
def test_workers_that_cannot_be_scheduled_are_given_up(groups, workload):
    (node,) = groups["L4"].nodes
    ghost = replace(groups["L4"], nodes=(replace(node, accelerator_type="B300"),))
    settings = replace(SETTINGS, schedule_limit_s=2.0)
    with open_runner(workload, [ghost], settings) as run:
        failure = run(make_config("L4"))
    assert failure.kind is FailureKind.WORKER_LOST
    assert failure.reason.startswith("the workers did not start: The worker group startup timed out")


class Holder:
    def ping(self):
        return True
