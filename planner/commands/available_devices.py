"""The devices of the attached cluster, and every configuration that can be tried on them."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.cli_values import SweepFlags
from planner.commands.prices import Prices
from planner.cost.hours import device_usd_per_hour
from planner.errors import PlannerError
from planner.fleet import fleet_of, limited
from planner.plans.space import Exclusion, Knobs, configs_for, exclusions, worker_counts
from planner.target import Target
from trials.api import DeviceGroup, TrialConfig, WorkloadProfile, discover, free_counts, version_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableDevices:
    """What trials may run on, and what they may try."""

    groups: tuple[DeviceGroup, ...]
    configs: tuple[TrialConfig, ...]
    exclusions: tuple[Exclusion, ...]  # what is left out; each reason once
    usd_per_hour: Mapping[str, float | None]  # of one device, by GPU name
    notes: tuple[str, ...]  # nodes and devices that are not used, and why

    @property
    def worker_counts(self) -> dict[str, int]:
        """The most workers that any trial will want, so that no group of workers has to be replaced."""
        return {
            group.gpu: max((one.gpu_count for one in self.configs if one.gpu == group.gpu), default=0)
            for group in self.groups
        }


def find_devices(
    prices: Prices,
    profile: WorkloadProfile,
    target: Target,
    flags: SweepFlags,
    ours: Sequence[DeviceGroup] = (),
) -> AvailableDevices:
    """Ask the cluster, whose nodes must run the same versions. Raises PlannerError: nothing can be tried.

    Of a limited number of GPUs those that are free, or on nodes that the sweep uses already, ``ours``, go
    first.
    """
    notes: list[str] = []
    nodes = discover(on_problem=notes.append)
    problems = version_problems(nodes)
    if problems is not None:
        raise PlannerError(f"the nodes must run the same Ray, Python minor version and torch:\n{problems}")
    fleet = fleet_of(nodes, prices.gpus, platform.machine())
    if flags.gpu_count is not None:
        free = free_counts(nodes, is_cpu=False)
        free |= {node.node_id: node.gpu_count for group in ours for node in group.nodes}
        fleet = limited(fleet, flags.gpu_count, free, only=prices.filters.gpus)
    configs, excluded = _configs(fleet.groups, prices, profile, target, flags)
    return AvailableDevices(
        groups=fleet.groups,
        configs=configs,
        exclusions=excluded,
        usd_per_hour={
            group.gpu: device_usd_per_hour(prices.offers, prices.gpus[group.gpu], group.nodes[0].cpu_count)
            for group in fleet.groups
        },
        notes=(*notes, *fleet.notes),
    )


def _configs(
    groups: tuple[DeviceGroup, ...],
    prices: Prices,
    profile: WorkloadProfile,
    target: Target,
    flags: SweepFlags,
) -> tuple[tuple[TrialConfig, ...], tuple[Exclusion, ...]]:
    configs: list[TrialConfig] = []
    excluded: list[Exclusion] = []
    wanted = [one for one in groups if not prices.filters.gpus or one.gpu in prices.filters.gpus]
    for group in wanted or groups:  # none of the types asked for is here: what is here predicts them
        gpu = prices.gpus[group.gpu]
        has_compiler = all(node.has_compiler is not False for node in group.nodes)
        knobs = Knobs(
            techniques={} if flags.is_compile_allowed is None else {"compile": flags.is_compile_allowed},
            missing=frozenset() if has_compiler else frozenset({"C compiler"}),
        )
        excluded += exclusions(gpu, profile, knobs)
        for count in worker_counts(gpu, group.worker_count_max, target):
            node_count = group.node_count_for(count)
            if node_count:
                configs += configs_for(target, gpu, count, node_count, profile, knobs)
    if not configs:
        names = ", ".join(group.gpu for group in groups)
        raise PlannerError(
            f"the global batch size {target.global_batch_size} leaves no configuration to try on {names}; "
            "give another --global-batch-size"
        )
    return tuple(configs), tuple(dict.fromkeys(excluded))
