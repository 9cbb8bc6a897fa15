"""A sweep over a real Ray cluster of fake nodes, one of which leaves and another joins while it runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from planner.commands.available_devices import AvailableDevices
from planner.commands.cluster_watcher import ClusterWatcher
from planner.fleet import fleet_of
from planner.plans.space import configs_for
from planner.search.market import Market
from planner.search.search import Search
from planner.search.state import SearchState
from planner.study.store import open_study
from planner.sweep import Event, Limits, Sweep, TrialEnded, TrialStarted
from tests.builders import make_gpu, make_offer, make_profile, make_target
from tests.trials.places import identify, measure, probe
from trials.cluster.attach import attach
from trials.cluster.discovery import discover
from trials.measurement import Measurement
from trials.model_file.source import hash_workload
from trials.runner import RunnerSettings, open_runner

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
MODEL = Path(__file__).parent.parent / "trials" / "faulty" / "model.py"
GPUS = {
    "A100": replace(make_gpu("A100"), device_names=("NVIDIA A100-SXM4-80GB",)),
    "L4": replace(make_gpu("L4"), device_names=("NVIDIA L4",)),
}
TARGET = make_target(global_batch_size=16, samples=20_000_000)
PROFILE = make_profile(block_count=0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head with an A100."""
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1, **_card("A100")})
    try:
        yield found
    finally:
        found.shutdown()


def _card(kind: str) -> dict[str, object]:
    return {"resources": {f"accelerator_type:{kind}": 1}}


def find() -> AvailableDevices:
    groups = fleet_of(discover(probe=probe), GPUS, "x86_64").groups
    return AvailableDevices(
        groups=groups,
        configs=tuple(one for group in groups for one in configs_for(TARGET, GPUS[group.gpu], 1, 1, PROFILE)),
        exclusions=(),
        usd_per_hour={group.gpu: 1.0 for group in groups},
        notes=(),
    )


def test_nodes_that_join_and_leave_are_used_and_survived(cluster: Cluster, tmp_path: Path) -> None:
    events: list[Event] = []
    nodes = []

    def watch(event: Event) -> None:
        events.append(event)
        ended = [one.outcome.config.gpu for one in events if isinstance(one, TrialEnded)]
        if isinstance(event, TrialEnded) and len(ended) == 1:
            nodes.append(cluster.add_node(num_cpus=2, num_gpus=1, **_card("L4")))
        if isinstance(event, TrialEnded) and ended.count("L4") == 1 and nodes:
            cluster.remove_node(nodes.pop())

    workload = hash_workload(MODEL)
    study = open_study(f"sqlite:///{tmp_path / 'study.db'}", workload)
    with attach(cluster.address):
        here = find()
        assert [one.gpu for one in here.groups] == ["A100"]
        market = Market(
            target=TARGET,
            offers=(make_offer("A100"), make_offer("L4", price_usd_per_hour=0.7)),  # each may win
            gpus=GPUS,
            groups=here.groups,
            usd_per_hour=here.usd_per_hour,
        )
        search = Search(SearchState(study, here.configs, market, PROFILE), study)
        settings = RunnerSettings(measure=measure, identify=identify, schedule_limit_s=10.0)
        with open_runner(workload, here.groups, settings) as runner:
            sweep = Sweep(
                search=search,
                study=study,
                limits=Limits(max_trials=100, max_s=240.0, max_usd=None),
                watch=watch,
                held=runner.held,
                has_room=runner.has_room,
                look_around=ClusterWatcher(find=find, search=search, runner=runner),
            )
            sweep.run(runner)
            assert runner.held() == {"A100": 1}
    assert [one.gpu for one in search.state.market.groups] == ["A100"]
    outcomes = [one.outcome for one in events if isinstance(one, TrialEnded)]
    on_l4 = [one for one in outcomes if one.config.gpu == "L4"]
    assert isinstance(on_l4[0], Measurement)
    assert sum(isinstance(one, Measurement) for one in outcomes if one.config.gpu == "A100") >= 2
    kinds = [type(one) for one in events]
    both = (TrialStarted, TrialStarted)
    assert both in itertools.pairwise(kinds)  # the types ran side by side
