"""The shape of a warm group of workers: everything that it needs to start, as data."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trials.measurement import Outcome
from trials.trial import TrialConfig, Workload

MeasureFunction = Callable[..., Outcome]  # (workload, config, place, settings, extras)
MergeFunction = Callable[[Sequence[Outcome]], Outcome]
IdentifyFunction = Callable[[str], str]  # device ("cpu", "cuda:0") -> its name

# Read by torch in the workers. With Ray Train's choice for the first, 1, NCCL's watchdog ends every rank
# whose peer has left, before the peer's reason is known; _abort_process_group asks for 0. A CUDA error is
# raised in the rank's own next call, which reports it: the watchdog need not end the process for it.
_NCCL_ENVIRONMENT = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many workers of a group run on one node."""

    node_id: str
    worker_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Everything a group needs to start; crosses to its processes."""

    token: str  # names this run's files on the nodes
    workload: Workload
    is_cpu: bool
    backend: str  # of torch.distributed
    device_name: str  # what every worker must report
    shares: tuple[Share, ...]  # equal counts
    resources: Mapping[str, float]  # of each worker
    accelerator_type: str | None
    cores_per_node: int
    schedule_limit_s: float
    measure: str | MeasureFunction
    merge: str | MergeFunction
    measure_settings: object | None
    identify: str | IdentifyFunction

    @property
    def worker_count(self) -> int:
        """Workers of the group, over all its nodes."""
        return sum(share.worker_count for share in self.shares)

    def takes(self, config: TrialConfig) -> bool:
        """Whether a trial fits into this group."""
        per_node, rest = divmod(config.gpu_count, config.node_count)
        return rest == 0 and config.node_count <= len(self.shares) and per_node <= self.shares[0].worker_count

    def ranks_of(self, config: TrialConfig) -> tuple[int, ...]:
        """The ranks that do the trial: the first ones of each node (Ray Train ranks node by node)."""
        per_node = config.gpu_count // config.node_count
        held = self.shares[0].worker_count
        return tuple(node * held + local for node in range(config.node_count) for local in range(per_node))

    def threads_of(self, config: TrialConfig) -> int:
        """Cores of each worker of the trial: those on a node share them."""
        return max(1, self.cores_per_node // (config.gpu_count // config.node_count))


def resolve(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """The function that ``"module:function"`` names, or the function itself."""
    if callable(name):
        return name
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


def worker_environment(plan: GroupPlan) -> dict[str, str]:
    """Environment variables of each worker's process, beside those of its node."""
    return {**_NCCL_ENVIRONMENT, "OMP_NUM_THREADS": str(plan.cores_per_node)}
